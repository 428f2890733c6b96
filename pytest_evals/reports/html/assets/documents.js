// All documents: choose, search, sort, and read one beside the list.

const SHOWS = ["", "wrong", "regressed", "improved", "errored", "unscored", "truncated", "correct", "scored", "excluded"];
const SORTS = { "": "in order", id: "by id", low: "lowest first", high: "highest first" };

let documents = null; // the view, once it was opened

class DocumentsView {
  constructor() {
    this.list = new VirtualList((doc) => docRow(doc, this.isMixed), (doc) => this.open(doc));
    this.pane = h("div.pane", { tabindex: "0", role: "region", "aria-label": "document" });
    this.search = h("input", { type: "search", placeholder: "search", "aria-label": "search documents", "data-key": "/" });
    this.search.addEventListener("input", () => this.change({ q: this.search.value }));
    const groups = run.facts.listed.filter(({ name }) => run.facts.parts[name].members && tasksOf(name).length);
    const names = new Set([...groups.map(({ name }) => name), ...run.tasks.keys()]);
    this.task = select("task", [["", "all tasks"], ...[...names].map((name) => [name, run.tasks.has(name) ? name : `${name} (group)`])], (task) => this.change({ task, show: this.given.get("show"), doc: "" }));
    this.sort = select("sort", Object.entries(SORTS), (sort) => this.change({ sort }));
    this.shows = h("div.shows", { role: "group", "aria-label": "which documents" });
    this.told = h("p.told", { role: "status" });
    this.more = h("p.on-paper.soft");
    this.node = h("div.documents", h("div.finder", h("div.tools", this.search, this.task, this.sort), this.shows, this.told, this.list.node, this.more), this.pane);
  }

  /** Bring the view to what the address says. */
  update(given) {
    const before = this.given;
    this.given = given;
    const same = before && ["task", "show", "q", "sort"].every((name) => before.get(name) === given.get(name));
    this.task.value = given.get("task") ?? "";
    this.sort.value = given.get("sort") ?? "";
    if (this.search !== document.activeElement) this.search.value = given.get("q") ?? "";
    if (!same) this.find();
    this.showDocument(given.get("doc") ?? "");
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

  find() {
    this.round = (this.round ?? 0) + 1;
    this.list.node.scrollTop = 0;
    const task = this.given.get("task") ?? "", show = this.given.get("show") ?? "";
    const pool = docsOf(task);
    this.isMixed = task ? tasksOf(task).length > 1 : run.tasks.size > 1;
    this.paintShows(pool, show);
    this.list.node.classList.toggle("is-mixed", this.isMixed);
    const chosen = show ? pool.filter((doc) => matchesShow(doc, show)) : pool;
    const needle = (this.given.get("q") ?? "").toLowerCase();
    if (!needle) {
      this.present(chosen, "");
      return;
    }
    const found = chosen.filter((doc) => hay(doc).includes(needle));
    this.present(found, "");
    this.searchWhole(chosen, new Set(found), needle, this.round);
  }

  /** Lines hold the beginning of things; the rest is searched chunk by chunk. */
  async searchWhole(chosen, found, needle, round) {
    const byChunk = Map.groupBy ? Map.groupBy(chosen, (doc) => doc.chunk) : grouped(chosen, (doc) => doc.chunk);
    let done = 0;
    for (const [n, docs] of byChunk) {
      done += 1;
      if (docs.every((doc) => found.has(doc))) continue;
      let whole;
      try {
        whole = await chunks.get(n);
      } catch (error) {
        this.told.textContent = error.message;
        return;
      }
      if (round !== this.round) return;
      const before = found.size;
      for (const doc of docs) if (!found.has(doc) && holds(whole[doc.place], needle)) found.add(doc);
      const isLast = done === byChunk.size;
      if (found.size > before || isLast || done % 16 === 0) {
        this.present(chosen.filter((doc) => found.has(doc)), isLast ? "" : `, ${Math.floor((100 * done) / byChunk.size)} % of the texts searched`);
      }
    }
    if (round === this.round) this.present(chosen.filter((doc) => found.has(doc)), "");
  }

  present(docs, note) {
    this.docs = sorted(docs, this.given.get("sort") ?? "");
    this.told.textContent = `${plural(docs.length, "document")}${note}`;
    this.more.textContent = docs.length > ON_PAPER ? `and ${count(docs.length - ON_PAPER)} more` : "";
    this.list.at = this.docs.indexOf(this.shown);
    this.list.show(this.docs);
  }

  paintShows(pool, show) {
    const counts = new Map(SHOWS.map((word) => [word, 0]));
    for (const doc of pool) for (const word of SHOWS) if (matchesShow(doc, word)) counts.set(word, counts.get(word) + 1);
    const offered = SHOWS.filter((word) => counts.get(word) || word === show);
    this.offered = offered;
    this.shows.replaceChildren(...offered.map((word) => h(
      "button.show",
      { type: "button", "aria-pressed": String(word === show), click: () => this.change({ show: word, doc: "" }) },
      word || "all", " ", h("span.n", count(counts.get(word))),
    )));
  }

  async showDocument(name) {
    const at = name.lastIndexOf("/");
    const doc = at < 0 ? null : (run.tasks.get(name.slice(0, at))?.docs[Number(name.slice(at + 1))] ?? null);
    this.shown = doc;
    this.node.classList.toggle("has-document", Boolean(doc));
    this.list.select(doc ? this.docs.indexOf(doc) : -1);
    if (!doc) {
      this.pane.replaceChildren(h("p.hint", name ? "There is no such document." : "Choose a document. ", name ? "" : h("kbd", "j"), name ? "" : " and ", name ? "" : h("kbd", "k"), name ? "" : " go down and up."));
      return;
    }
    try {
      const whole = await wholeOf(doc);
      if (this.shown !== doc) return;
      const back = h("a.back", { href: address("documents", { ...Object.fromEntries(this.given), doc: "" }) }, "← all documents");
      this.pane.replaceChildren(back, documentPane(doc, whole));
      this.pane.scrollTop = 0;
    } catch (error) {
      this.pane.replaceChildren(h("p.trouble", error.message));
    }
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

/** A line of the list; in a list of several tasks with the name of its own. */
function docRow(doc, isMixed) {
  const [flag, turn] = doc.flags & REGRESSED ? ["▼", "regressed"] : doc.flags & IMPROVED ? ["▲", "improved"] : ["", ""];
  return h(
    `div.doc.is-${STATES[doc.state].kind}`,
    h("span.state", stateMark(doc.state, { short: true }), flag ? h("span.flag", { title: turn }, flag, h("span.unseen", turn)) : null),
    h("bdi.id", isMixed ? `${doc.task}[${doc.id}]` : doc.id),
    questionLine(doc),
    h("bdi.answer", doc.answer || "–"),
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

/** Whether any text of a document has these characters. */
function holds(whole, needle) {
  const texts = [whole.row, whole.error, whole.excluded, whole.target, ...whole.prompts.flat().map((part) => part.text), ...whole.asked.map((one) => one.text ?? "")];
  for (const one of whole.answers.flat()) if (typeof one === "string") texts.push(one);
  for (const one of whole.exchanges) texts.push(String(one.answer), ...one.parts.map((part) => part.text));
  for (const one of whole.scores) texts.push(one.answer, ...Object.values(one.explanations));
  return texts.some((text) => text.toLowerCase().includes(needle));
}

function sorted(docs, sort) {
  if (!sort) return docs;
  const by = new Intl.Collator("en", { numeric: true });
  if (sort === "id") return [...docs].sort((a, b) => by.compare(a.id, b.id) || a.order - b.order);
  const sign = sort === "low" ? 1 : -1;
  const keys = new Map([...run.tasks.keys()].map((task) => [task, firstKey(task)]));
  const value = (doc) => valueOf(doc, keys.get(doc.task));
  return [...docs].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a.order - b.order;
    return sign * (x - y) || a.order - b.order;
  });
}

function documentsView(parameters) {
  documents ??= new DocumentsView();
  queueMicrotask(() => documents.update(parameters));
  return documents.node;
}
