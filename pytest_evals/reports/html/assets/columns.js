// Columns of the list of documents. A column is an entry here; its data come from the
// index (index.py).
//
// name: in the address; title: of the heading; width: a track of the grid;
// cell(doc): what is shown; key(doc): what is sorted by, null for last.

const SHOWN_AT_FIRST = ["question", "target", "answer"];

function columnsOffered() {
  return [
    { name: "question", title: "question", width: "minmax(4rem, 2.4fr)", cell: questionLine, key: (doc) => doc.question },
    { name: "target", title: "target", width: "minmax(2.5rem, 1fr)", cell: (doc) => h("bdi.target", doc.target || "–"), key: (doc) => doc.target },
    { name: "answer", title: "answer", width: "minmax(2.5rem, 1fr)", cell: (doc) => h("bdi.answer", doc.answer || "–"), key: (doc) => doc.answer },
    { name: "score", title: "score", width: "4.5rem", cell: (doc) => numberCell(scoreOf(doc)), key: scoreOf },
    ...otherKeys().map((key) => ({ name: `score.${key}`, title: keyName(key), width: "minmax(3.5rem, 6rem)", cell: (doc) => numberCell(valueOf(doc, key)), key: (doc) => valueOf(doc, key) })),
    ...namesIn("numbers").map((name) => ({ name, title: name, width: "minmax(3.5rem, 6rem)", cell: (doc) => numberCell(numberOf(doc, name)), key: (doc) => numberOf(doc, name) })),
    ...namesIn("slices").map((name) => ({ name: `data.${name}`, title: name, width: "minmax(3rem, 1fr)", cell: (doc) => h("bdi.label", labelsOf(doc, name).join(", ") || "–"), key: (doc) => labelsOf(doc, name)[0] ?? null })),
    ...otherRuns().map((other) => ({ name: `run.${other.at}`, title: other.title, width: "minmax(1.7rem, 1fr)", cell: (doc) => runCell(doc, other.at), key: (doc) => inRun(doc, other.at)?.state ?? null })),
  ];
}

/** The chosen columns; without a choice the first ones and those of the other runs. */
function columnsChosen(names) {
  const offered = columnsOffered();
  const isChosen = names === null
    ? ({ name }) => SHOWN_AT_FIRST.includes(name) || name.startsWith("run.")
    : ({ name }) => names.split(",").includes(encodeURIComponent(name));
  return offered.filter(isChosen);
}

/** Names of the numbers or slices of any task. */
function namesIn(kind) {
  return [...new Set([...run.tasks.values()].flatMap((task) => Object.keys(task[kind] ?? {})))];
}

/** Metrics besides the first one of each task, which the column "score" has. */
function otherKeys() {
  const first = new Set([...run.tasks.keys()].map(firstKey));
  return namesIn("values").filter((key) => !first.has(key));
}

const scoreOf = (doc) => valueOf(doc, firstKey(doc.task));

function numberCell(value) {
  return h("span.number", value === null ? "–" : figure(value));
}

function runCell(doc, at) {
  const found = inRun(doc, at);
  if (!found) return h("span.run.soft", { title: "not in this run" }, "–");
  return h("span.run", { title: found.answer }, stateMark(found.state, { short: true }), h("bdi", found.answer || "–"));
}

const COMPARE = new Intl.Collator("en", { numeric: true });

/** Documents in the order of a column: "name", or "-name" for the reverse. */
function sorted(docs, sort) {
  if (!sort) return docs;
  const isDown = sort.startsWith("-") || sort === "high";
  const name = sort === "low" || sort === "high" ? "score" : sort.replace(/^-/, "");
  const key = name === "id" ? (doc) => doc.id : columnsOffered().find((column) => column.name === name)?.key;
  if (!key) return docs;
  const keys = new Map(docs.map((doc) => [doc, key(doc)]));
  return [...docs].sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a.order - b.order;
    const by = typeof x === "number" ? x - y : COMPARE.compare(x, y);
    return (isDown ? -by : by) || a.order - b.order;
  });
}
