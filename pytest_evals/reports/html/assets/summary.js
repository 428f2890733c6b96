// The first view: verdict, gates that did not pass, tasks and groups.

const FEW = 4; // warnings shown open

function summaryView() {
  const { facts } = run;
  return h(
    "div.page",
    verdictHead(facts),
    noticesOf(facts),
    facts.gates.length ? gatesInShort(facts) : null,
    h("section", h("h2", "Tasks"), tasksTable(facts)),
  );
}

function verdictHead(facts) {
  const [outcome, words] = verdictWords(facts);
  const counts = totals(facts);
  const documents = Object.values(counts).reduce((a, b) => a + b, 0);
  const about = [
    plural(documents, "document"),
    facts.n_requests ? plural(facts.n_requests, "request") : "",
    facts.n_reused ? `${count(facts.n_reused)} reused` : "",
    seconds(facts.total_evaluation_time_seconds),
    moment(facts.date),
  ].filter(Boolean);
  return h(
    `header.verdict.is-${outcome}`,
    h("p.over", facts.model_name ?? "a model"),
    h("h1", h("span.sign", { "aria-hidden": "true" }, OUTCOMES[outcome]?.sign ?? "•"), words),
    h("p.about", about.join("  ·  ")),
    documents ? stack(counts) : null,
    documents ? legend(counts) : null,
  );
}

function verdictWords(facts) {
  const all = facts.gates.length;
  if (!all) return ["none", "No gates"];
  const tally = {};
  for (const gate of facts.gates) tally[gate.outcome] = (tally[gate.outcome] ?? 0) + 1;
  const worst = Object.keys(tally).sort((a, b) => rankOf(a) - rankOf(b))[0];
  if (worst === "passed") return [worst, all === 1 ? "The gate passed" : `All ${all} gates passed`];
  const words = Object.entries(tally)
    .filter(([outcome]) => outcome !== "passed")
    .sort(([a], [b]) => rankOf(a) - rankOf(b))
    .map(([outcome, n]) => `${n} ${outcome}`);
  return [worst, `${words.join(", ")} of ${plural(all, "gate")}`];
}

const rankOf = (outcome) => OUTCOMES[outcome]?.rank ?? 9;

function totals(facts) {
  const sum = { correct: 0, wrong: 0, scored: 0, errored: 0, unscored: 0, excluded: 0, "not run": 0 };
  for (const part of Object.values(facts.parts)) {
    if (part.counts) for (const [word, n] of Object.entries(wordedCounts(part.counts))) sum[word] += n;
  }
  return sum;
}

/** A task's counts by the states of its documents. */
function wordedCounts(counts) {
  const known = counts.correct + counts.wrong + counts.errored + counts.unscored + counts.missing + (counts.excluded ?? 0);
  return {
    correct: counts.correct,
    wrong: counts.wrong,
    scored: Math.max(0, counts.selected - known),
    errored: counts.errored,
    unscored: counts.unscored,
    excluded: counts.excluded ?? 0,
    "not run": counts.missing,
  };
}

function legend(counts, task = "") {
  const words = Object.entries(counts).filter(([, n]) => n > 0);
  return h("ul.legend", words.map(([word, n]) => h(
    "li",
    h(`span.swatch.is-${word.replace(" ", "-")}`, { "aria-hidden": "true" }),
    word === "not run" ? `${count(n)} not run` : link("documents", { task, show: word }, `${count(n)} ${word}`),
  )));
}

/** What holds for the whole run; notes on a comparison are on its own page. */
function noticesOf(facts) {
  const { comparison } = facts;
  const n = (comparison?.differences ?? []).length + (comparison?.warnings ?? []).length;
  const found = refusals(comparison);
  if (facts.partial) found.unshift(`Partial run: ${facts.partial}.`);
  if (n) found.push(link("changes", {}, `${plural(n, "note")} on the comparison with ${comparison.name}`));
  return [notices(found), warningsOf(facts.warnings)];
}

function refusals(comparison) {
  return (comparison?.refused ?? []).map((text) => `Not compared with ${comparison.name}: ${text}.`);
}

function notices(found) {
  return found.length ? h("ul.notices", found.map((one) => h("li", one))) : null;
}

/** Why two runs may differ: settings and prompts, with word diffs. */
function differencesOf(differences) {
  if (!differences.length) return null;
  const list = h("ul", differences.map(({ text, examples }) => h("li", h("bdi", text), examples.length ? h("ul.word-diffs", examples.map((one) => h("li", h("bdi", wordDiff(one))))) : null)));
  return h("details.notices", { open: true }, h("summary", "Why the runs may differ"), list);
}

/** Warnings of the run; few are open at first. */
function warningsOf(texts) {
  if (!texts.length) return null;
  const list = h("ul", texts.map((text) => h("li", h("bdi", text))));
  return h("details.notices", { open: texts.length <= FEW }, h("summary", plural(texts.length, "warning")), list);
}

function gatesInShort(facts) {
  const open = facts.gates.filter((gate) => gate.outcome !== "passed");
  const passed = facts.gates.length - open.length;
  return h(
    "section",
    h("h2", "Gates"),
    [...open].sort((a, b) => rankOf(a.outcome) - rankOf(b.outcome)).map((gate) => h(
      "a.row-link",
      { href: address("gates", { gate: gate.node }) },
      outcomeMark(gate.outcome),
      h("span.claim", h("b", gate.task), " ", conditionOf(gate)),
      h("span.soft", whyOf(gate)),
    )),
    passed && open.length ? h("p", link("gates", {}, `${passed} passed`)) : null,
    passed && !open.length ? h("p", link("gates", {}, "all gates with their thresholds and confidence intervals")) : null,
  );
}

function tasksTable(facts) {
  const compared = new Map((facts.comparison?.metrics ?? []).map((one) => [`${one.task}\n${one.key}`, one]));
  const heads = { task: "task", docs: "docs", metric: "metric", bar: "", value: "value", vs: compared.size ? `vs ${facts.comparison.name}` : null, spark: "over runs", verdicts: "gates" };
  const rows = facts.listed.flatMap(({ name, depth }) => taskRows(name, depth, compared));
  return h("div.scroll", h("table.tasks", h("thead", h("tr", Object.entries(heads).filter(([, text]) => text !== null).map(([name, text]) => h(`th.${name}`, text)))), h("tbody", rows)));
}

function taskRows(name, depth, compared) {
  const part = run.facts.parts[name];
  const metrics = part.metrics.length ? part.metrics : [null];
  return metrics.map((metric, i) => h(
    i ? "tr.more" : "tr.first",
    h(`td.name.depth-${Math.min(depth, 4)}`, i ? "" : link("task", { name }, breakable(part.alias.replace(/^[\s-]+/, "")))),
    h("td.number.docs", docsCell(name, metric, i === 0)),
    h("td.metric", metric ? breakable(keyName(metric.key)) : h("span.soft", "group")),
    ...numberCells(metric && counted(name, metric), gatesOf(name, metric, false)),
    compared.size ? h("td.number.vs", metric ? changeCell(compared.get(`${name}\n${metric.key}`)) : "") : null,
    h("td.spark", metric && run.facts.history[name]?.[metric.key] ? sparkline(run.facts.history[name][metric.key]) : ""),
    h("td.verdicts", gateMarks(name, metric, i === 0)),
  ));
}

/** A number with its standard error, or with the confidence limits that its gate compared. */
function numberCells(metric, gates) {
  if (!metric) return [h("td.bar", ""), h("td.number.value", "")];
  const judged = gates.find((gate) => gate.interval && !gate.change && !gate.early);
  const limits = judged ? { ...judged.interval, name: intervalName(judged.interval) } : null;
  const reach = limits ? ` ${limits.name} ${figure(limits.low)} to ${figure(limits.high)}` : ` ${spreadText(metric)}`;
  const isShown = limits || !gates.length;
  const shown = { ...metric, value: judged?.value ?? metric.value }; // a gate may reduce answers or correct a judge
  return [
    h("td.bar", limits ? scoreBar(shown, limits) : scoreBar(metric)),
    h("td.number.value", [figure(shown.value), isShown ? h("span.soft", reach) : ""]),
  ];
}

/** Documents of a task, once; of a group, those of its tasks that have the metric. */
function docsCell(name, metric, isFirst) {
  const isGroup = !run.tasks.has(name);
  if (!isGroup && !isFirst) return "";
  const parts = tasksOf(name).map((task) => run.facts.parts[task]).filter((part) => part?.counts);
  const having = parts.filter((part) => part.metrics.some((one) => one.key === metric?.key));
  const known = (isGroup && having.length ? having : parts).map((part) => part.counts);
  if (!known.length) return "";
  const [selected, total] = ["selected", "total"].map((word) => known.reduce((sum, one) => sum + one[word], 0));
  return selected < total ? `${count(selected)} of ${count(total)}` : count(total);
}

/** A change with an arrow and a word. */
function changeCell(one) {
  if (!one || one.before === null || one.now === null) return h("span.soft", "–");
  const by = one.now - one.before;
  if (by === 0) return h("span.soft", "same");
  const better = one.higher_is_better === null ? null : by > 0 === one.higher_is_better;
  const word = better === null ? "moved" : better ? "better" : "worse";
  return h(`span.change.is-${word}`, { title: word }, `${by > 0 ? "▲" : "▼"} ${one.unit === "percent" ? moved(by / one.before, "percent") : signed(by)}`, h("span.unseen", ` ${word}`));
}

/** The gates on a metric; those on documents belong to the first. */
function gatesOf(name, metric, isFirst) {
  const isOn = (gate) => (gate.metric ? gate.metric === metric?.name && (gate.filter ?? metric.filter) === metric.filter : isFirst);
  return run.facts.gates.filter((gate) => gate.task === name && isOn(gate));
}

function gateMarks(name, metric, isFirst) {
  const found = gatesOf(name, metric, isFirst);
  return found.map((gate) => h(
    "a.gate-mark",
    { href: address("gates", { gate: gate.node }), title: `${gate.claim}: ${gate.outcome}` },
    outcomeMark(gate.outcome, { short: found.length > 1 && gate.outcome === "passed" }),
  ));
}
