// The gates: what each claims, what was found, and what would decide it.

const SCOPES = {
  run: "this run's number itself",
  benchmark: "another run on the same documents",
  population: "other documents of the same kind",
};

function gatesView(parameters) {
  const gates = [...run.facts.gates].sort((a, b) => rankOf(a.outcome) - rankOf(b.outcome));
  const cards = gates.map(gateCard);
  const at = gates.findIndex((gate) => gate.node === parameters.get("gate"));
  if (at >= 0) {
    cards[at].classList.add("is-chosen");
    requestAnimationFrame(() => cards[at].scrollIntoView({ block: at ? "start" : "nearest" }));
  }
  return h("div.page", h("p.over", run.facts.model_name ?? "a model"), h("h1", verdictWords(run.facts)[1]), cards);
}

function gateCard(gate) {
  return h(
    `article.gate.is-${gate.outcome}`,
    h("header", outcomeMark(gate.outcome), h("h2", link("task", { name: gate.task }, gate.task), " ", h("code", claimOf(gate))), gate.early ? h("span.tag", "decided early") : null),
    gate.reason ? h("p.reason", gate.reason) : null,
    h("div.gate-body", h("div", gateDrawn(gate), decides(gate), documentsOfGate(gate)), gateFacts(gate, gate.outcome !== "passed")),
    h("footer", h("code.node", gate.node), copyButton(gate.node, "copy id"), copyButton(`pytest ${quoted(parentOf(gate.node))}`, "copy command", "run its documents again, with the same options"), h("span.soft", gate.source)),
  );
}

/** The claim, without the name of the task that stands before it anyway. */
const claimOf = (gate) => (gate.claim.startsWith(`${gate.task}/`) ? gate.claim.slice(gate.task.length + 1) : gate.claim);

const parentOf = (node) => node.slice(0, node.lastIndexOf("::"));

/** Both one-sided limits together: a 90% CI at a confidence of 0.95. */
const intervalName = ({ confidence }) => `${+(100 * (2 * confidence - 1)).toPrecision(4)}% CI`;

/** The number and its threshold. */
function gateDrawn(gate) {
  const chart = gateChart(gate);
  if (!chart) return null;
  const line = gate.interval ? `line: ${intervalName(gate.interval)}; ` : "";
  return [chart, h("p.small", `${line}shaded: where the condition holds`)];
}

/** What would turn or settle the verdict. */
function decides(gate) {
  const told = [];
  if (gate.outcome === "failed" && gate.short > 0) told.push(`It is ${figure(gate.short)} beyond the threshold.`);
  if (gate.n_short) told.push(`${plural(gate.n_short, "more correct answer")} would have passed it.`);
  if (gate.outcome === "invalid") told.push("The gate could not be evaluated; this is not a statement about the model.");
  for (const note of gate.notes ?? []) told.push(`${note}.`);
  return told.length ? h("ul.decides", told.map((text) => h("li", text))) : null;
}

function gateFacts(gate, open) {
  const { change, interval } = gate;
  const facts = [
    ["value", typeof gate.value === "number" ? figure(gate.value) : null],
    ["standard error", typeof gate.stderr === "number" && !interval ? figure(gate.stderr) : null],
    ["documents scored", gate.n_scored === null ? null : count(gate.n_scored ?? 0)],
    ["noise that counts", SCOPES[gate.over] ?? null],
    ["confidence interval", interval ? `${intervalName(interval)} ${shownBound(interval.low, change)} to ${shownBound(interval.high, change)}, ${interval.method}` : null],
    ["baseline", change ? `${change.baseline}: ${figure(change.before)} → ${figure(change.now)} over ${plural(change.n, "document")}` : gate.baseline],
    ["flips", change && change.gained !== null ? `${change.gained} improved, ${change.lost} got worse` : null],
    ["p", typeof gate.p_value === "number" ? `${gate.p_value.toPrecision(2)}${typeof gate.p_adjusted === "number" ? `, ${gate.p_adjusted.toPrecision(2)} after correction (${gate.family})` : ""}` : null],
    ["clustered by", gate.cluster],
  ].filter(([, value]) => value);
  if (!facts.length) return null;
  return h("details.gate-facts", { open }, h("summary", "what it rests on"), h("dl.facts", facts.map(([name, value]) => [h("dt", name), h("dd", value)])));
}

const shownBound = (value, change) => (change ? moved(value, change.unit) : figure(value));

/** The documents that decided it, or those that were wrong. */
function documentsOfGate(gate) {
  const named = new Set(gate.documents ?? []);
  const docs = docsOf(gate.task);
  const known = docs.filter((doc) => named.has(doc.id));
  const wrong = docs.some((doc) => doc.state === "w");
  const beside = known.length ? known : gate.change ? docs : [];
  const show = beside.some((doc) => doc.flags & REGRESSED) ? "regressed" : "wrong";
  return [
    known.length ? h("ul.examples", known.slice(0, 5).map((doc) => h("li", stateMark(doc.state, { short: true }), docLink(doc, doc.id), questionLine(doc)))) : null,
    wrong && gate.outcome !== "passed" ? h("p", link("documents", { task: gate.task, show }, `look at the ${show} documents of ${gate.task}`)) : null,
  ];
}

function docLink(doc, ...children) {
  return link("documents", { task: doc.task, doc: `${doc.task}/${doc.n}` }, ...children);
}
