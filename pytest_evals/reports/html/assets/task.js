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
    h("section", h("h2", "Metrics"), numbersTable(name, part)),
    part.judge_errors?.length ? h("section", h("h2", "Judge and human labels"), part.judge_errors.map(judgeError)) : null,
    part.members ? membersOf(part) : null,
    gates.length ? h("section", h("h2", "Gates"), [...grouped(gates, scaleName).values()].map((members) => gatesTable(members, (gate, axis) => gateRow(gate, axis, false)))) : null,
    pastOf(name),
    figuresOf(name),
    settingsOf(part),
  );
}

/** How a judge and people rated the same answers. */
function judgeError({ metric, text, confusion }) {
  const [corrected, agreement, ...rest] = text.map((one) => one.replace(`${keyName(metric ?? "")}: `, ""));
  const judge = Object.keys(Object.values(confusion ?? {})[0] ?? {});
  return h("div.judge",
    h("h3", keyName(metric ?? "")),
    h("p", corrected),
    agreement ? h("p", judge.length ? agreement.split(";")[0] : agreement) : null,
    rest.map((one) => h("p", one)),
    judge.length ? h("div.scroll", h("table.confusion",
      h("thead", h("tr", h("td"), judge.map((one) => h("th", { scope: "col" }, `judge: ${one}`)))),
      h("tbody", Object.entries(confusion).map(([human, row]) => h("tr", h("th", { scope: "row" }, `human: ${human}`), judge.map((one) => h(one === human ? "td.number.agrees" : "td.number", count(row[one])))))))) : null);
}

function settingsOf(part) {
  const facts = askedFacts(part), hasConfig = part.config && Object.keys(part.config).length;
  if (!facts && !hasConfig) return null;
  return h("section", h("h2", "Prompts and settings"), facts, hasConfig ? h("details", h("summary", "configuration"), block(JSON.stringify(part.config, null, 2), "code")) : null);
}

function numbersTable(name, part) {
  const arrow = { true: "higher is better", false: "lower is better" };
  return h("div.scroll", h("table.numbers", h("tbody", part.metrics.map((one) => counted(name, one)).map((metric) => h(
    "tr",
    h("td", breakable(keyName(metric.key))),
    h("td.bar", scoreBar(metric)),
    h("td.number", figure(metric.value)),
    h("td.number.soft", spreadText(metric) || "no standard error"),
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
    ["version", ["Yaml", "N/A"].includes(part.version) ? null : part.version?.toString()], // lm-eval's words for none
    ["dataset", [part.config?.dataset_path, part.config?.dataset_name].filter(Boolean).join(" · ") || null],
    ["split", part.config?.test_split ?? part.config?.validation_split ?? null],
    ["prompts", run.facts.begins || null],
  ].filter(([, value]) => value);
  return facts.length ? h("dl.facts", facts.map(([name, value]) => [h("dt", name), h("dd", value)])) : null;
}
