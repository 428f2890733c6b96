// One task or group: metrics, gates, figures and history.

function taskView(parameters) {
  const name = parameters.get("name");
  const part = run.facts.parts[name];
  if (!part) return h("div.page", h("h1", "No such task"), h("p", name));
  const gates = run.facts.gates.filter((gate) => gate.task === name);
  return h(
    "div.page",
    h("p.over", part.members ? "group" : (part.kind ?? "task").replaceAll("_", " ")),
    h("h1", part.alias.replace(/^[\s-]+/, "")),
    h("p.node-line", h("code.node", breakable(part.node)), copyButton(`pytest ${quoted(part.node)}`, "copy command", "run it again, with the same options")),
    part.counts ? [stack(wordedCounts(part.counts)), legend(wordedCounts(part.counts), name)] : null,
    part.counts?.truncated ? h("ul.notices", h("li", link("documents", { task: name, show: "truncated" }, plural(part.counts.truncated, "prompt")), " did not fit into the context window and were truncated at the beginning.")) : null,
    part.counts?.cut_short ? h("ul.notices", h("li", link("documents", { task: name, show: "truncated" }, plural(part.counts.cut_short, "answer")), " ended before the requested token limit: the context window was full or the server has a lower limit.")) : null,
    h("section", h("h2", "Metrics"), numbersTable(part)),
    part.judge_errors?.length ? h("section", h("h2", "Judge and human labels"), h("ul.plain", part.judge_errors.map((text) => h("li", text)))) : null,
    part.members ? membersOf(part) : null,
    gates.length ? h("section", h("h2", "Gates"), h("div.gates", gates.map((gate) => gateRow(gate, axisOf(gates.filter((one) => scaleName(one) === scaleName(gate))), false)))) : null,
    pastOf(name),
    figuresOf(name),
    h("section", h("h2", "Prompts and settings"), askedFacts(part), part.config && Object.keys(part.config).length ? h("details", h("summary", "configuration"), block(JSON.stringify(part.config, null, 2), "code")) : null),
  );
}

function numbersTable(part) {
  const arrow = { true: "higher is better", false: "lower is better" };
  return h("div.scroll", h("table.numbers", h("tbody", part.metrics.map((metric) => h(
    "tr",
    h("td", breakable(keyName(metric.key))),
    h("td.bar", scoreBar(metric)),
    h("td.number", figure(metric.value)),
    h("td.number.soft", metric.stderr === null ? "no standard error" : `± ${figure(metric.stderr)}`),
    h("td.soft", arrow[String(metric.higher)] ?? ""),
  )))));
}

function membersOf(part) {
  return h("section", h("h2", "Tasks"), h("ul.plain", part.members.filter((name) => run.facts.parts[name]).map((name) => h("li", link("task", { name }, name)))));
}

function pastOf(name) {
  const known = Object.entries(run.facts.history[name] ?? {});
  if (!known.length) return null;
  return h("section", h("h2", "History"), known.map(([key, points]) => h(
    "figure",
    h("figcaption", keyName(key), h("span.soft", historyKey(points))),
    timeline(points, levelBounds(name, key)),
  )));
}

function historyKey(points) {
  const parts = ["bars: 90% CI"];
  if (points.some((p) => p.baseline)) parts.push("diamond: baseline");
  if (points.some((p) => !p.same)) parts.push("hollow: different requests");
  return `  ${parts.join("; ")}`;
}

/** Thresholds of the gates on a metric's value. */
function levelBounds(name, key) {
  const [metric, filter] = key.split(",");
  const gates = run.facts.gates.filter((gate) => gate.task === name && gate.metric === metric && !gate.change && (gate.filter ?? filter) === filter);
  const bounds = new Map(gates.flatMap(thresholdsOf).map((bound) => [`${bound.op} ${bound.value}`, bound]));
  return [...bounds.values()];
}

function askedFacts(part) {
  const facts = [
    ["few-shot examples", part.members ? null : String(part.shots)],
    ["version", part.version === null ? null : String(part.version)],
    ["dataset", [part.config?.dataset_path, part.config?.dataset_name].filter(Boolean).join(" · ") || null],
    ["split", part.config?.test_split ?? part.config?.validation_split ?? null],
    ["prompts", run.facts.begins || null],
  ].filter(([, value]) => value);
  return h("dl.facts", facts.map(([name, value]) => [h("dt", name), h("dd", value)]));
}
