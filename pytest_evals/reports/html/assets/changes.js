// This run and its baseline: metrics, and the documents that flipped, by task.

const FEW_FLIPS = 8; // shown of each task

function changesView() {
  const comparison = run.facts.comparison;
  if (!comparison) return h("div.page", h("h1", "Runs"), h("p.soft", "This run was not compared with a baseline."), otherMetrics());
  const flipped = run.docs.filter((doc) => doc.flags & (REGRESSED | IMPROVED));
  return h(
    "div.page",
    h("p.over", "compared with the baseline"),
    h("h1", comparison.name),
    h("p.about", `${plural(comparison.n_paired, "document")} scored in both runs`),
    differencesOf(comparison.differences ?? []),
    notices([...refusals(comparison), ...(comparison.warnings ?? [])]),
    comparison.metrics.length ? h("section", h("h2", "Metrics"), changesTable(comparison)) : null,
    comparison.n_paired ? h("section", h("h2", "Documents"), flipsOf(comparison, flipped), flipped.length ? null : h("p.soft", "No document changed between correct and wrong.")) : null,
    [...grouped(flipped, (doc) => doc.task)].map(([task, docs]) => flipsOfTask(task, docs)),
    otherMetrics(),
  );
}

function flipsOf({ n_paired }, flipped) {
  const improved = flipped.filter((doc) => doc.flags & IMPROVED).length;
  const counts = { improved, unchanged: Math.max(0, n_paired - flipped.length), regressed: flipped.length - improved };
  return [stack(counts), h("ul.legend", Object.entries(counts).map(([word, n]) => h("li", h(`span.swatch.is-${word}`, { "aria-hidden": "true" }), `${count(n)} ${word}`)))];
}

/** Changes of metrics, groups first as in the table of tasks. */
function changesTable({ name, metrics }) {
  const order = new Map(run.facts.listed.map((one, at) => [one.name, at]));
  const rows = [...metrics].sort((a, b) => (order.get(a.task) ?? 1e9) - (order.get(b.task) ?? 1e9));
  const heads = ["change", "task", "metric", name, "", "this run"];
  return h("div.scroll", h("table.numbers.changes", h("thead", h("tr", heads.map((text) => h("th", text)))), h("tbody", rows.map((one) => h(
    "tr",
    h("td.number", changeCell(one), changeInterval(one)),
    h("td", run.facts.parts[one.task] ? link("task", { name: one.task }, breakable(one.task)) : one.task, run.facts.parts[one.task]?.members ? h("span.soft", " (group)") : null),
    h("td", breakable(keyName(one.key))),
    h("td.number", figure(one.before)),
    h("td.soft", { "aria-hidden": "true" }, "→"),
    h("td.number", figure(one.now)),
  )))));
}

/** The interval of a change, or that of a gate on the difference, or the reason why it is missing. */
function changeInterval({ task, key, low, high, unit = "plain", method, no_interval }) {
  if (typeof low === "number" && typeof high === "number") return h("span.soft", { title: method ?? "" }, ` 90% CI ${moved(low, unit)} to ${moved(high, unit)}`);
  const gate = run.facts.gates.find((one) => one.task === task && one.change && one.change.unit !== "percent" && one.interval && `${one.metric},${one.filter ?? "none"}` === key);
  if (gate) return h("span.soft", ` ${intervalName(gate.interval)} ${signed(gate.interval.low)} to ${signed(gate.interval.high)} (${plural(gate.change.n, "document")})`);
  return no_interval ? h("span.soft", ` no CI: ${no_interval}`) : null;
}

function flipsOfTask(task, docs) {
  const kinds = [["regressed", REGRESSED, "correct → wrong"], ["improved", IMPROVED, "wrong → correct"]];
  return h("section", h("h3", link("task", { name: task }, task)), kinds.map(([show, flag, words]) => {
    const some = docs.filter((doc) => doc.flags & flag);
    if (!some.length) return null;
    return [
      h("h4", `${count(some.length)} ${show}: ${words}`),
      h("ul.flips", some.slice(0, FEW_FLIPS).map((doc) => flipRow(doc, show))),
      some.length > FEW_FLIPS ? h("p", link("documents", { task, show }, `all ${count(some.length)} ${show}`)) : null,
    ];
  }));
}

/** The whole id, the question, and the answers: was → now. */
function flipRow(doc, show) {
  const was = inRun(doc, 0)?.answer;
  return h("li", h("a.flip", { href: address("documents", { task: doc.task, show, doc: `${doc.task}/${doc.n}` }) },
    h("bdi.id", breakable(doc.id)),
    questionLine(doc),
    h("span.turn", h("bdi", was || "–"), h("span.soft", " → "), h("bdi", doc.answer || "–"), doc.target ? [h("span.soft", "  target "), h("bdi", doc.target)] : null)));
}

/** Metrics of all runs, when there are more than two. */
function otherMetrics() {
  const others = otherRuns();
  if (others.length < (run.facts.comparison ? 2 : 1)) return null;
  const heads = ["task", "metric", ...others.map(({ title }) => title), "this run"];
  const rows = run.facts.listed.flatMap(({ name }) => run.facts.parts[name].metrics.map((metric) => h(
    "tr", h("td", link("task", { name }, name)), h("td", keyName(metric.key)),
    others.map((other) => h("td.number", figure(other.values[name]?.[metric.key]))), h("td.number", figure(metric.value)),
  )));
  return h("section", h("h2", "All runs"), h("div.scroll", h("table.numbers", h("thead", h("tr", heads.map((text) => h("th", text)))), h("tbody", rows))), h("p", link("documents", { show: "runs differ", doc: CLOSED }, "documents by run")));
}
