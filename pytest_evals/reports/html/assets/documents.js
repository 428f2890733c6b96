// All documents: filter, search, sort, and read one next to the list. The address has
// all of it: task, show, where (column:value), q, sort, cols and doc.

const SHOWS = ["", "wrong", "regressed", "improved", "runs differ", "errored", "unscored", "truncated", "correct", "scored", "excluded"];
const SORTS = { "": "in order", id: "by id", low: "lowest score first", high: "highest score first" };
const FILTERS = ["task", "show", "where", "q", "sort", "cols"];
const TAIL = 8; // characters at the end of a long id that stay visible: rows differ there
const CLOSED = "-"; // instead of a document: the list has all the room

const wide = matchMedia("(min-width: 60.01rem)");

let documents = null; // the view, once it was opened

class DocumentsView {
  constructor() {
    this.list = new VirtualList((doc) => docRow(doc, this.isMixed, this.columns), (doc) => this.open(doc));
    this.pane = h("div.pane", { tabindex: "0", role: "region", "aria-label": "document" });
    this.search = h("input", { type: "search", placeholder: "search", "aria-label": "search documents", "data-key": "/" });
    this.search.addEventListener("input", () => this.change({ q: this.search.value }));
    const groups = run.facts.listed.filter(({ name }) => run.facts.parts[name].members && tasksOf(name).length);
    const names = new Set([...groups.map(({ name }) => name), ...run.tasks.keys()]);
    this.task = select("task", [["", "all tasks"], ...[...names].map((name) => [name, run.tasks.has(name) ? name : `${name} (group)`])], (task) => this.change({ task, show: this.given.get("show"), doc: "" }));
    this.sort = select("sort", [], (sort) => this.change({ sort }));
    this.shows = h("div.shows", { role: "group", "aria-label": "which documents" });
    this.status = h("p.told", { role: "status" });
    this.where = h("p.where");
    this.heads = h("div.heads");
    this.chosen = h("p.on-paper");
    this.more = h("p.on-paper.soft");
    this.node = h("div.documents", h("div.finder", h("div.tools", this.search, this.task, this.sort, this.chooser()), this.chosen, this.shows, this.where, this.status, this.heads, this.list.node, this.more), this.pane);
  }

  /** The list of columns, each with a box to tick. */
  chooser() {
    this.boxes = columnsOffered().map(({ name, title }) => {
      const box = h("input", { type: "checkbox", value: name });
      box.addEventListener("change", () => this.change({ cols: this.boxes.filter((one) => one.checked).map((one) => encodeURIComponent(one.value)).join(",") }));
      return Object.assign(box, { title });
    });
    const node = h("details.columns", h("summary", "columns"), h("div", this.boxes.map((box) => h("label", box, " ", h("bdi", box.title)))));
    addEventListener("click", ({ target }) => { node.open &&= node.contains(target); });
    return node;
  }

  /** Bring the view to the state in the address. */
  update(given) {
    const before = this.given;
    this.given = given;
    const same = before && FILTERS.every((name) => before.get(name) === given.get(name));
    this.task.value = given.get("task") ?? "";
    if (this.search !== document.activeElement) this.search.value = given.get("q") ?? "";
    if (!same) {
      this.arrange();
      this.find();
    }
    this.showDocument(given.get("doc") ?? "");
  }

  /** Columns and their headings. */
  arrange() {
    const sort = this.given.get("sort") ?? "";
    this.columns = columnsChosen(this.given.get("cols"));
    const names = new Set(this.columns.map(({ name }) => name));
    for (const box of this.boxes) box.checked = names.has(box.value);
    this.node.style.setProperty("--columns", this.columns.map(({ width }) => width).join(" "));
    const heads = [{ name: "id", title: "id" }, ...this.columns];
    this.heads.replaceChildren(h("span"), ...heads.map(({ name, title }) => {
      const way = { [name]: "▲", [`-${name}`]: "▼" }[sort] ?? "";
      const next = { "": name, "▲": `-${name}`, "▼": "" }[way];
      return h("button.head", { type: "button", title: `sort by ${title}`, click: () => this.change({ sort: next }) }, title, way ? h("span.way", { title: way === "▲" ? "ascending" : "descending" }, ` ${way}`) : "");
    }));
    const sorts = { ...SORTS, ...Object.fromEntries(this.columns.map(({ name, title }) => [name, `by ${title}`])) };
    if (sort && !sorts[sort]) sorts[sort] = `by ${sort.replace(/^-/, "")}, descending`;
    this.sort.replaceChildren(...Object.entries(sorts).map(([value, text]) => h("option", { value }, text)));
    this.sort.value = sort;
  }

  change(parameters) {
    const all = { ...Object.fromEntries(this.given), ...parameters };
    addresses.replace(address("documents", all));
  }

  open(doc) {
    const all = { ...Object.fromEntries(this.given), doc: `${doc.task}/${doc.n}` };
    const go = this.given.get("doc") ? addresses.replace : addresses.push;
    go(address("documents", all));
  }

  /** Back to the list; on a wide screen the document closes and opens again. */
  back() {
    const isOpen = this.given.get("doc") !== CLOSED;
    this.change({ doc: wide.matches && isOpen ? CLOSED : "" });
  }

  find() {
    this.round = (this.round ?? 0) + 1;
    this.list.node.scrollTop = 0;
    const task = this.given.get("task") ?? "";
    const [column, value] = partsOf(this.given.get("where") ?? "");
    const all = docsOf(task);
    const pool = column ? all.filter((doc) => labelsOf(doc, column).includes(value)) : all;
    this.isMixed = task ? tasksOf(task).length > 1 : run.tasks.size > 1;
    this.node.classList.toggle("is-mixed", this.isMixed);
    this.where.replaceChildren(...(column ? [h("span.soft", `${column}: `), h("bdi", value), " ", h("button.quiet", { type: "button", click: () => this.change({ where: "" }) }, "✕ remove filter")] : []));
    const needle = (this.given.get("q") ?? "").toLowerCase();
    const found = needle ? pool.filter((doc) => hay(doc).includes(needle)) : pool;
    this.present(found, "");
    if (needle) this.searchWhole(pool, new Set(found), needle, this.round);
  }

  /** List entries have the beginning of each text; the rest is searched chunk by chunk. */
  async searchWhole(pool, found, needle, round) {
    const byChunk = grouped(pool, (doc) => doc.chunk);
    let done = 0;
    for (const [n, docs] of byChunk) {
      done += 1;
      if (docs.every((doc) => found.has(doc))) continue;
      let whole;
      try {
        whole = await chunks.get(n);
      } catch (error) {
        this.status.textContent = error.message;
        return;
      }
      if (round !== this.round) return;
      const before = found.size;
      for (const doc of docs) if (!found.has(doc) && holds(whole[doc.place], needle)) found.add(doc);
      const isLast = done === byChunk.size;
      if (found.size > before || isLast || done % 16 === 0) {
        this.present(pool.filter((doc) => found.has(doc)), isLast ? "" : `, ${Math.floor((100 * done) / byChunk.size)}% of the texts searched`);
      }
    }
    if (round === this.round) this.present(pool.filter((doc) => found.has(doc)), "");
  }

  /** Show the matching documents of the chosen kind, and the number of each kind. */
  present(matches, note) {
    const show = this.given.get("show") ?? "";
    this.paintShows(matches, show);
    const docs = show ? matches.filter((doc) => matchesShow(doc, show)) : matches;
    this.docs = sorted(docs, this.given.get("sort") ?? "");
    this.status.textContent = `${plural(docs.length, "document")}${note}`;
    this.chosen.textContent = this.description();
    this.more.textContent = docs.length > ON_PAPER ? `and ${count(docs.length - ON_PAPER)} more` : "";
    this.list.at = this.docs.indexOf(this.shown);
    this.list.show(this.docs);
    if (!this.given.get("doc")) this.showDocument("");
  }

  /** The filters in words, for paper. */
  description() {
    const [task, show, q] = ["task", "show", "q"].map((name) => this.given.get(name) ?? "");
    return [run.facts.model_name, task || "all tasks", show, q && `“${q}”`].filter(Boolean).join(" · ");
  }

  paintShows(pool, show) {
    const counts = new Map(SHOWS.map((word) => [word, 0]));
    for (const doc of pool) for (const word of SHOWS) if (matchesShow(doc, word)) counts.set(word, counts.get(word) + 1);
    // Compared with one baseline only, they differ where a document flipped.
    if (otherRuns().length < (run.facts.comparison ? 2 : 1)) counts.set("runs differ", 0);
    const offered = SHOWS.filter((word) => counts.get(word) || word === show);
    this.offered = offered;
    this.shows.replaceChildren(...offered.map((word) => h(
      "button.show",
      { type: "button", "aria-pressed": String(word === show), click: () => this.change({ show: word, doc: "" }) },
      word || "all", " ", h("span.n", count(counts.get(word))),
    )));
  }

  /** Show a document by its name in the address; without one the first of the list. */
  async showDocument(name) {
    const at = name.lastIndexOf("/");
    const named = at < 0 ? null : (run.tasks.get(name.slice(0, at))?.docs[Number(name.slice(at + 1))] ?? null);
    const doc = named ?? (!name && wide.matches ? this.docs[0] ?? null : null);
    const isShown = doc && doc === this.shown && !this.isStale;
    this.shown = doc;
    this.isStale = false;
    this.node.classList.toggle("has-document", Boolean(name) && name !== CLOSED);
    this.node.classList.toggle("is-closed", name === CLOSED);
    this.list.select(doc ? this.docs.indexOf(doc) : -1);
    if (isShown) return;
    if (!doc) {
      this.pane.replaceChildren(h("p.hint", name && name !== CLOSED ? "There is no such document." : "No document matches."));
      return;
    }
    try {
      const whole = await wholeOf(doc);
      if (this.shown !== doc) return;
      const back = h("a.back", { href: address("documents", { ...Object.fromEntries(this.given), doc: "" }) }, "← all documents");
      const close = h("button.quiet.close", { type: "button", title: "hide the document (Esc)", click: () => this.back() }, "hide ✕");
      this.pane.replaceChildren(back, close, documentPane(doc, whole));
      this.pane.scrollTop = 0;
    } catch (error) {
      this.pane.replaceChildren(h("p.trouble", error.message));
    }
  }

  /** Draw the document anew, with other settings. */
  redraw() {
    this.isStale = true;
    this.showDocument(this.given.get("doc") ?? "");
  }

  move(by) {
    if (!this.docs.length) return;
    const at = this.list.at < 0 ? (by > 0 ? 0 : this.docs.length - 1) : this.list.at + by;
    this.list.take(Math.min(this.docs.length - 1, Math.max(0, at)));
  }

  nextShow() {
    const at = this.offered.indexOf(this.given.get("show") ?? "");
    this.change({ show: this.offered[(at + 1) % this.offered.length], doc: "" });
  }
}

function select(label, options, choose) {
  const node = h("select", { "aria-label": label }, options.map(([value, text]) => h("option", { value }, text)));
  node.addEventListener("change", () => choose(node.value));
  return node;
}

/** "column:value" of the address; values may have colons. */
function partsOf(where) {
  const at = where.indexOf(":");
  return at < 0 ? ["", ""] : [where.slice(0, at), where.slice(at + 1)];
}

/** A row of the list; in a list of several tasks with the name of its own. */
function docRow(doc, isMixed, columns) {
  const [flag, turn] = doc.flags & REGRESSED ? ["▼", "regressed"] : doc.flags & IMPROVED ? ["▲", "improved"] : ["", ""];
  const id = isMixed ? `${doc.task}[${doc.id}]` : doc.id, tail = /^[ -~]{25,}$/.test(id) ? -TAIL : id.length;
  return h(
    `div.doc.is-${STATES[doc.state].kind}`,
    h("span.state", stateMark(doc.state, { short: true }), flag ? h("span.flag", { title: turn }, flag, h("span.unseen", turn)) : null),
    h("bdi.id", { title: id }, h("span", id.slice(0, tail)), tail < 0 ? h("span.tail", id.slice(tail)) : null),
    columns.map((column) => column.cell(doc)),
  );
}

function grouped(items, keyOf) {
  const found = new Map();
  for (const item of items) {
    if (!found.has(keyOf(item))) found.set(keyOf(item), []);
    found.get(keyOf(item)).push(item);
  }
  return found;
}

/** Whether any text of a document contains these characters. */
function holds(whole, needle) {
  const texts = [whole.row, whole.error, whole.excluded, whole.target, ...textsIn(whole.returned), ...whole.prompts.flat().map((part) => part.text), ...whole.asked.map((one) => one.text ?? "")];
  for (const one of whole.answers.flat()) if (typeof one === "string") texts.push(one);
  for (const one of whole.exchanges) texts.push(String(one.answer), ...one.parts.map((part) => part.text));
  for (const one of whole.scores) texts.push(one.answer, ...Object.values(one.explanations));
  return texts.some((text) => text.toLowerCase().includes(needle));
}

function documentsView(parameters) {
  documents ??= new DocumentsView();
  queueMicrotask(() => documents.update(parameters));
  return documents.node;
}
