// This run and its baseline: metrics, and the documents that flipped.

function changesView() {
  const found = run.facts.comparison;
  if (!found) return h("div.page", h("h1", "Changes"), h("p.soft", "This run was not compared with a baseline."));
  return h(
    "div.page",
    h("p.over", "beside the baseline"),
    h("h1", found.name),
    h("p.about", `${plural(found.n_paired, "document")} scored both times`),
    noticesOf({ ...run.facts, partial: "" }),
    flipsOf(found),
    found.metrics.length ? h("section", h("h2", "Numbers"), changesTable(found)) : null,
    turned("regressed", "Correct before, wrong now"),
    turned("improved", "Wrong before, correct now"),
  );
}

function flipsOf(found) {
  const same = Math.max(0, found.n_paired - found.worse.length - found.better.length);
  const counts = { improved: found.better.length, same, regressed: found.worse.length };
  return found.n_paired ? h("div", stack(counts), h("ul.legend", Object.entries(counts).map(([word, n]) => h("li", h(`span.swatch.is-${word}`), `${count(n)} ${word === "same" ? "unchanged" : word}`)))) : null;
}

function changesTable(found) {
  const heads = ["task", "metric", found.name, "now", "change"];
  return h("div.scroll", h("table.numbers", h("thead", h("tr", heads.map((text) => h("th", text)))), h("tbody", found.metrics.map((one) => h(
    "tr",
    h("td", run.facts.parts[one.task] ? link("task", { name: one.task }, one.task) : one.task),
    h("td", keyName(one.key)),
    h("td.number", figure(one.before)),
    h("td.number", figure(one.now)),
    h("td.number", changeCell(one)),
  )))));
}

function turned(show, title) {
  const docs = run.docs.filter((doc) => matchesShow(doc, show));
  if (!docs.length) return null;
  return h(
    "section",
    h("h2", title, h("span.n", count(docs.length))),
    docs.slice(0, 8).map((doc) => h("a.row-link", { href: address("documents", { show, doc: `${doc.task}/${doc.n}` }) }, h("span.id", h("bdi", `${doc.task} · ${doc.id}`)), questionLine(doc), h("bdi", doc.answer))),
    docs.length > 8 ? h("p", link("documents", { show }, `all ${count(docs.length)}`)) : null,
  );
}
