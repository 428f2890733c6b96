// Gates: one line each in tables whose charts share one scale; a line opens.

const SCOPES = {
  run: "this run itself",
  benchmark: "another run on the same documents",
  population: "other documents of the same kind",
};
const OPERATORS = { ">=": "≥", "<=": "≤", ">": ">", "<": "<" };

function gatesView(parameters) {
  const chosen = parameters.get("gate");
  const gates = [...run.facts.gates].sort((a, b) => rankOf(a.outcome) - rankOf(b.outcome));
  const first = chosen === null && gates[0]?.outcome !== "passed" ? gates[0] : null;
  const rows = new Map();
  const tables = [...grouped(gates, scaleName)].map(([name, members]) => h("section", h("h2", name), gatesTable(members, (gate, axis) => {
    rows.set(gate.node, gateRow(gate, axis, gate.node === chosen || gate === first));
    return rows.get(gate.node);
  })));
  const row = rows.get(chosen);
  if (row) {
    row.classList.add("is-chosen");
    requestAnimationFrame(() => row.scrollIntoView({ block: "nearest" }));
  }
  const key = h("p.small", "✓ or ● passed, ✕ failed, ◆ inconclusive, ■ invalid; line: confidence interval; vertical bar: threshold; shaded: values that pass");
  return h("div.page", h("p.over", run.facts.model_name ?? "a model"), h("h1", verdictWords(run.facts)[1]), key, tables);
}

/** Gates on one scale, below its axis. */
function gatesTable(gates, row) {
  const axis = axisOf(gates);
  return h("div.gates", axis ? h("div.gate-axis", { "aria-hidden": "true" }, axisTicks(axis)) : null, gates.map((gate) => row(gate, axis)));
}

/** Gates with one name share a scale. */
function scaleName(gate) {
  if (gate.change) return { points: "Changes in points", percent: "Changes in percent" }[gate.change.unit] ?? `Changes of ${gate.metric}`;
  if (!gate.bounds?.length) return "Documents and other conditions";
  const numbers = [gate.value, ...gate.bounds.map((one) => one.value)].filter(Number.isFinite);
  return numbers.every((v) => v >= 0 && v <= 1) ? "Values from 0 to 1" : `Values of ${gate.metric}`;
}

function gateRow(gate, axis, open) {
  return h(
    `details.gate.is-${gate.outcome}`,
    { open },
    h(
      "summary",
      outcomeMark(gate.outcome),
      h("span.gate-name", h("b", breakable(gate.task)), " ", h("span", breakable(conditionOf(gate))), gate.early ? h("span.tag", "decided early") : null),
      h("span.gate-value", valueOfGate(gate), gate.interval ? h("span.soft", ` ${intervalText(gate)}`) : null),
      h("span.gate-chart", axis ? gateLine(gate, axis) : ""),
    ),
    h("div.gate-more", gateCard(gate)),
  );
}

/** The condition in short: "acc ≥ 0.62", "acc vs v1 ≥ −3.00 points". */
function conditionOf(gate) {
  const metric = gate.filter && gate.filter !== "none" ? `${gate.metric},${gate.filter}` : gate.metric;
  const bounds = thresholdsOf(gate).map(({ op, value }) => `${OPERATORS[op] ?? op} ${shownThreshold(value, gate.change)}`).join(", ");
  if (!metric || !bounds) return claimOf(gate);
  return gate.change ? `${metric} vs ${gate.change.baseline} ${bounds}` : `${metric} ${bounds}`;
}

function thresholdsOf({ change, bounds }) {
  const found = change ? [{ op: change.op, value: change.bar }] : bounds ?? [];
  return found.filter(({ value }) => typeof value === "number");
}

function numberOfGate({ change, value }) {
  return change ? change.difference : value;
}

function valueOfGate(gate) {
  const value = numberOfGate(gate);
  return typeof value === "number" ? bare(value, gate.change) : "–";
}

const intervalText = ({ interval, change }) => `${intervalName(interval)} ${bare(interval.low, change)} to ${bare(interval.high, change)}`;

const bare = (value, change) => shownBound(value, change).replace(/ (points|%)$/, "");

/** The opened part of a line. */
function gateCard(gate) {
  return [
    h("p.claim", link("task", { name: gate.task }, gate.task), " ", h("code", claimOf(gate))),
    gate.reason ? h("p.reason", whyOf(gate)) : null,
    h("div.gate-body", h("div", decides(gate), documentsOfGate(gate)), gateFacts(gate)),
    h("footer", h("code.node", breakable(gate.node)), copyButton(gate.node, "copy id"), copyButton(`pytest ${quoted(parentOf(gate.node))}`, "copy command", "run its documents again, with the same options"), h("span.soft", gate.source)),
  ];
}

/** The claim without the name of its task. */
const claimOf = (gate) => (gate.claim.startsWith(`${gate.task}/`) ? gate.claim.slice(gate.task.length + 1) : gate.claim);

const parentOf = (node) => node.slice(0, node.lastIndexOf("::"));

/** Both one-sided limits together: a 90% CI at a confidence of 0.95. */
const intervalName = ({ confidence }) => `${+(100 * (2 * confidence - 1)).toPrecision(4)}% CI`;

/** The conclusion in plain words, then the numbers. */
const whyOf = (gate) => [gate.conclusion, gate.reason].filter(Boolean).join(": ");

/** How far the value is from the threshold. */
function decides(gate) {
  const parts = [];
  if (gate.outcome === "failed" && gate.short > 0) parts.push(`The value is ${shownShort(gate)} the threshold.`);
  if (gate.n_short) parts.push(`${plural(gate.n_short, "more correct answer")} would have passed it.`);
  if (gate.outcome === "invalid") parts.push("The gate could not be evaluated; this is not a statement about the model.");
  for (const note of gate.notes ?? []) parts.push(`${note}.`);
  return parts.length ? h("ul.decides", parts.map((text) => h("li", text))) : null;
}

/** "0.070 below", "2.30 points above". */
function shownShort(gate) {
  const way = Math.min(...thresholdsOf(gate).map(({ value }) => value)) > numberOfGate(gate) ? "below" : "above";
  return `${shownBound(gate.short, gate.change).replace("+", "")} ${way}`;
}

function gateFacts(gate) {
  const { change, interval } = gate;
  const facts = [
    ["value", typeof gate.value === "number" ? figure(gate.value) : null],
    ["standard error", typeof gate.stderr === "number" && !interval ? figure(gate.stderr) : null],
    ["documents scored", gate.n_scored === null ? null : count(gate.n_scored ?? 0)],
    ["valid for", SCOPES[gate.over] ?? null],
    ["confidence interval", interval ? `${intervalName(interval)} ${shownBound(interval.low, change)} to ${shownBound(interval.high, change)}, ${interval.method}` : null],
    ["baseline", change ? `${change.baseline}: ${figure(change.before)} → ${figure(change.now)} over ${plural(change.n, "document")}` : gate.baseline],
    ["flips", change && change.gained !== null ? `${change.gained} improved, ${change.lost} regressed` : null],
    ["p", typeof gate.p_value === "number" ? `${gate.p_value.toPrecision(2)}${typeof gate.p_adjusted === "number" ? `, ${gate.p_adjusted.toPrecision(2)} adjusted for several gates${gate.family ? ` (${gate.family})` : ""}` : ""}` : null],
    ["clustered by", gate.cluster],
  ].filter(([, value]) => value);
  if (!facts.length) return null;
  return h("dl.facts", facts.map(([name, value]) => [h("dt", name), h("dd", value)]));
}

const shownBound = (value, change) => (change ? moved(value, change.unit) : figure(value));

/** A threshold as it was written: 0.62, not 0.620. */
const shownThreshold = (value, change) => (change ? moved(value, change.unit) : String(+value.toPrecision(6)).replace("-", "−"));

/** Documents that decided the gate, and a link to the regressed or wrong ones. */
function documentsOfGate(gate) {
  const named = new Set(gate.documents ?? []);
  const docs = docsOf(gate.task);
  const known = docs.filter((doc) => named.has(doc.id));
  const wrong = docs.some((doc) => doc.state === "w");
  const deciding = known.length ? known : gate.change ? docs : [];
  const show = deciding.some((doc) => doc.flags & REGRESSED) ? "regressed" : "wrong";
  const key = keyOfGate(gate);
  if (key && !gate.change && gate.outcome !== "passed") {
    const { task } = docs.find((doc) => valueOf(doc, key) !== null);
    const isLow = run.facts.parts[task]?.metrics.find((one) => one.key === key)?.higher !== false;
    const name = `score.${key}`;
    const cols = [...SHOWN_AT_FIRST, name].map(encodeURIComponent).join(",");
    return h("p", link("documents", { task: gate.task, sort: isLow ? name : `-${name}`, cols }, `documents of ${gate.task} by ${keyName(key)}, the ${isLow ? "lowest" : "highest"} first`));
  }
  return [
    known.length ? h("ul.examples", known.slice(0, 5).map((doc) => h("li", stateMark(doc.state, { short: true }), docLink(doc, doc.id), questionLine(doc)))) : null,
    wrong && gate.outcome !== "passed" ? h("p", link("documents", { task: gate.task, show }, `${show} documents of ${gate.task}`)) : null,
  ];
}

/** The metric of a gate, if it has values of documents and is not the one that decides what is wrong. */
function keyOfGate(gate) {
  const tasks = tasksOf(gate.task);
  const keys = tasks.flatMap((task) => Object.keys(run.tasks.get(task).values));
  const key = keys.find((one) => (gate.filter ? one === `${gate.metric},${gate.filter}` : one.split(",")[0] === gate.metric));
  return key && !tasks.some((task) => firstKey(task) === key) ? key : "";
}

function docLink(doc, ...children) {
  return link("documents", { task: doc.task, doc: `${doc.task}/${doc.n}` }, ...children);
}
