// Figures of a task or group: distributions, calibration, accuracy by slice.

const BINS = 10; // of confidence
const PARTS = 5; // of a number, with as many documents each
const MOST_SLICES = 30;

function figuresOf(name) {
  const docs = docsOf(name);
  if (!docs.length) return null;
  const found = [slicesFigure(name, docs), calibrationFigure(docs), ...distributions(name, docs)].filter(Boolean);
  return found.length ? h("section", h("h2", "Documents"), found) : null;
}

/** One histogram for each metric and each other number. */
function distributions(name, docs) {
  const tasks = tasksOf(name).map((task) => run.tasks.get(task));
  const metrics = [...new Set(tasks.flatMap((task) => Object.keys(task.values)))].map((key) => [keyName(key), (doc) => valueOf(doc, key)]);
  const numbers = [...new Set(tasks.flatMap((task) => Object.keys(task.numbers)))].map((key) => [key, (doc) => numberOf(doc, key)]);
  return [...metrics, ...numbers].map(([title, of]) => [title, histogram(docs, of, title)]).filter(([, drawn]) => drawn)
    .map(([title, drawn]) => h("figure", h("figcaption", title, h("span.soft", "  documents by value"), hatchKey(docs)), drawn));
}

const hatchKey = (docs) => (docs.some((doc) => doc.state === "w") ? h("span.soft", "; ", h("span.swatch.is-wrong", { "aria-hidden": "true" }), "wrong") : null);

const isJudged = (doc) => doc.state === "r" || doc.state === "w";

/** Of choices: the probability of the most probable one against accuracy. */
function calibrationFigure(docs) {
  const bins = Array.from({ length: BINS }, () => ({ sum: 0, k: 0, n: 0 }));
  for (const doc of docs) {
    const confidence = numberOf(doc, "confidence");
    if (confidence === null || !isJudged(doc)) continue;
    const bin = bins[Math.min(BINS - 1, Math.floor(confidence * BINS))];
    bin.sum += confidence;
    bin.k += doc.state === "r" ? 1 : 0;
    bin.n += 1;
  }
  const filled = bins.filter(({ n }) => n).map(({ sum, k, n }) => ({ confidence: sum / n, k, n }));
  const all = filled.reduce((sum, { n }) => sum + n, 0);
  if (all < BINS) return null;
  const error = filled.reduce((sum, { confidence, k, n }) => sum + Math.abs(k - confidence * n), 0) / all;
  return h("figure", h("figcaption", "Calibration", h("span.soft", `  expected calibration error ${figure(error)}; bars: 90% CI; dashed: accuracy equals confidence`)), calibrationChart(filled));
}

/** Accuracy by a column of the data, or by parts of a number. */
function slicesFigure(name, docs) {
  const ways = waysToSlice(name, docs.filter(isJudged));
  if (!ways.length) return null;
  const place = h("div.scroll");
  const choose = select("slice by", ways.map(({ title }, i) => [String(i), title]), (i) => place.replaceChildren(slicesTable(ways[Number(i)])));
  place.append(slicesTable(ways[0]));
  return h("figure", h("figcaption", h("label", "Accuracy by ", choose)), place);
}

function waysToSlice(name, docs) {
  const tasks = tasksOf(name);
  const names = (kind) => [...new Set(tasks.flatMap((task) => Object.keys(run.tasks.get(task)[kind])))];
  return [
    ...(tasks.length > 1 ? [{ title: "task", slices: [...grouped(docs, (doc) => doc.task)], filter: (task) => ({ task }) }] : []),
    ...names("slices").filter((column) => !isTarget(docs, column)).map((column) => ({ title: column, filter: (value) => ({ task: name, where: `${column}:${value}` }), slices: byLabel(docs, (doc) => labelsOf(doc, column)) })),
    { title: "target", slices: byLabel(docs, (doc) => [doc.target]) },
    { title: "answer", slices: byLabel(docs, (doc) => [doc.answer]) },
    ...names("numbers").map((number) => ({ title: number, slices: byParts(docs, (doc) => numberOf(doc, number)) })),
  ].filter(({ slices, filter }) => slices.length > 1 && (filter || slices.length <= MOST_SLICES));
}

/** Whether a column is the target in other words. */
function isTarget(docs, column) {
  const targets = new Map();
  for (const doc of docs) {
    const label = labelsOf(doc, column).join();
    if ((targets.get(label) ?? doc.target) !== doc.target) return false;
    targets.set(label, doc.target);
  }
  return new Set(targets.values()).size === targets.size;
}

function byLabel(docs, labels) {
  const found = new Map();
  for (const doc of docs) for (const one of labels(doc)) found.set(one, [...(found.get(one) ?? []), doc]);
  return [...found].sort(([a], [b]) => COMPARE.compare(a, b));
}

/** Parts with about as many documents each; equal values stay together. */
function byParts(docs, valueOfDoc) {
  const known = docs.filter((doc) => valueOfDoc(doc) !== null).sort((a, b) => valueOfDoc(a) - valueOfDoc(b));
  const ends = Array.from({ length: PARTS }, (_, i) => known[Math.ceil(((i + 1) * known.length) / PARTS) - 1]).filter(Boolean).map(valueOfDoc);
  const parts = grouped(known, (doc) => ends.findIndex((end) => valueOfDoc(doc) <= end));
  return [...parts.values()].map((part) => [`${shortNumber(valueOfDoc(part[0]))} to ${shortNumber(valueOfDoc(part.at(-1)))}`, part]);
}

function slicesTable({ filter, slices }) {
  const rows = slices.map(([title, docs]) => {
    const k = docs.filter((doc) => doc.state === "r").length, n = docs.length, limits = wilson(k, n);
    return h(
      "tr",
      h("td", h("bdi", filter ? link("documents", filter(title), title) : title || "–")),
      h("td.bar", scoreBar({ value: k / n }, limits, 240)),
      h("td.number", figure(k / n)),
      h("td.number.soft", `90% CI ${figure(limits.low)} to ${figure(limits.high)}`),
      h("td.number.soft", `${count(k)} of ${count(n)}`),
    );
  });
  return h("table.numbers.slices", h("tbody", rows));
}
