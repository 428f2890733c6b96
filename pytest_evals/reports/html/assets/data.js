// Data of the page. They are embedded compressed; too many rows are in files next to
// it, which are loaded as scripts on demand.

const KEPT = 24; // chunks that stay unpacked

const run = { facts: null, docs: [], tasks: new Map(), n: 0 };

async function loadFacts() {
  run.facts = await unpack(document.getElementById("facts").textContent);
}

/** One object a document, in the order of tasks and data. */
async function loadIndex() {
  const index = await unpack(document.getElementById("index").textContent);
  chunks.beside = index.beside;
  for (const task of index.tasks) {
    const docs = [];
    let chunk = task.first, left = task.sizes[0], place = 0;
    for (let i = 0; i < task.id.length; i += 1) {
      if (place === left) {
        chunk += 1;
        left = task.sizes[chunk - task.first];
        place = 0;
      }
      docs.push({
        task: task.task, n: i, order: run.n, chunk, place,
        id: task.id[i], state: task.states[i], flags: task.flags[i],
        question: task.question[i], answer: task.answer[i], target: task.target[i],
      });
      place += 1;
      run.n += 1;
    }
    const { values, numbers = {}, slices = {}, runs = [] } = task;
    run.tasks.set(task.task, { docs, values, numbers, slices, runs });
    for (const doc of docs) run.docs.push(doc);
  }
}

/** The tasks with documents of a name: the task itself, or those of the group. */
function tasksOf(name, around = []) {
  if (run.tasks.has(name)) return [name];
  const members = around.includes(name) ? [] : (run.facts.parts[name]?.members ?? []);
  return [...new Set(members.flatMap((member) => tasksOf(member, [...around, name])))];
}

/** The documents of a task or a group; of all tasks for no name. */
function docsOf(name) {
  return name ? tasksOf(name).flatMap((task) => run.tasks.get(task).docs) : run.docs;
}

/** The value of a metric for a document, null if there is none. */
function valueOf(doc, key) {
  return run.tasks.get(doc.task).values[key]?.[doc.n] ?? null;
}

/** Another number of a document, such as its confidence; null if there is none. */
function numberOf(doc, name) {
  return run.tasks.get(doc.task).numbers[name]?.[doc.n] ?? null;
}

/** The labels of a document in a column of the data. */
function labelsOf(doc, name) {
  const slice = run.tasks.get(doc.task).slices[name];
  return [slice?.at[doc.n] ?? []].flat().map((at) => slice.values[at]);
}

/** The other runs: the baseline first. */
function otherRuns() {
  return (run.facts.runs ?? []).map((other, at) => ({ ...other, at })).filter(({ name }) => name !== undefined)
    .map((other) => ({ ...other, title: other.name || `${other.model} ${moment(other.date).slice(5, 16)}` }));
}

/** State and answer of a document in another run; null if it is not there. */
function inRun(doc, at) {
  const found = run.tasks.get(doc.task).runs[at];
  const state = found?.states[doc.n] ?? " ";
  return state === " " ? null : { state, answer: found.answers[doc.n] };
}

/** Whether a document is correct in one run and wrong in another. */
function differs(doc) {
  const states = [doc.state, ...run.tasks.get(doc.task).runs.map(({ states: all }) => all[doc.n])];
  return states.includes("r") && states.includes("w");
}

/** A metric of a task or group with its number of documents, if each counts as 0 or 1. */
function counted(name, metric) {
  const values = docsOf(name).map((doc) => valueOf(doc, metric.key)).filter((value) => value !== null);
  return values.every((value) => value === 0 || value === 1) ? { ...metric, n: values.length } : metric;
}

/** The standard error of a metric; without a spread, its confidence interval. */
function spreadText(metric) {
  if (metric.stderr === null) return "";
  if (metric.stderr !== 0) return `± ${figure(metric.stderr)}`;
  const { low, high } = aroundStderr(metric);
  return low < high ? `90% CI ${figure(low)} to ${figure(high)}` : "± 0";
}

/** The first metric of a task, which decides what is correct. */
function firstKey(task) {
  return Object.keys(run.tasks.get(task)?.values ?? {})[0] ?? "";
}

/** The text of a document's list entry, for searching. */
function hay(doc) {
  doc.hay ??= `${doc.id}\n${doc.question}\n${doc.answer}\n${doc.target}`.toLowerCase();
  return doc.hay;
}

function matchesShow(doc, show) {
  switch (show) {
    case "correct": return doc.state === "r";
    case "wrong": return doc.state === "w";
    case "scored": return doc.state === "s";
    case "errored": return doc.state === "e";
    case "unscored": return doc.state === "u";
    case "excluded": return doc.state === "x";
    case "regressed": return (doc.flags & REGRESSED) !== 0;
    case "improved": return (doc.flags & IMPROVED) !== 0;
    case "runs differ": return differs(doc);
    case "truncated": return (doc.flags & (TRUNCATED | CUT_OFF)) !== 0;
    default: return true;
  }
}

const chunks = {
  beside: "",
  known: new Map(),
  waiting: new Map(),

  /** The documents of a chunk; the last few stay unpacked. */
  get(n) {
    const known = this.known.get(n);
    if (known) {
      this.known.delete(n);
      this.known.set(n, known);
      return known;
    }
    const coming = this.text(n).then(unpack);
    coming.catch(() => this.known.delete(n));
    this.known.set(n, coming);
    if (this.known.size > KEPT) this.known.delete(this.known.keys().next().value);
    return coming;
  },

  text(n) {
    if (!this.beside) return Promise.resolve(document.getElementById(`rows-${n}`).textContent);
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      const name = `${this.beside}${n}.js`;
      this.waiting.set(n, resolve);
      script.src = rowsPolicy.createScriptURL(name.split("/").map(encodeURIComponent).join("/"));
      script.onload = () => script.remove();
      script.onerror = () => {
        script.remove();
        reject(new Error(`cannot load ${name}: keep this folder next to the page`));
      };
      document.head.append(script);
    });
  },
};

/** Called by the scripts next to the page. */
window.evalsRows = (n, text) => {
  chunks.waiting.get(n)?.(text);
  chunks.waiting.delete(n);
};

/** The only addresses that scripts may come from. */
const rowsPolicy = (window.trustedTypes ?? { createPolicy: (_, rules) => rules }).createPolicy("evals-rows", {
  createScriptURL(name) {
    if (/^[^/:?#]+\/[0-9a-f]{12}-\d+\.js$/.test(name)) return name;
    throw new Error(`not a file of rows: ${name}`);
  },
});

/** All details of a document. */
async function wholeOf(doc) {
  return (await chunks.get(doc.chunk))[doc.place];
}
