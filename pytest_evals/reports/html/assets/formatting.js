// Numbers, times, and signs of states and outcomes.

const COUNT = new Intl.NumberFormat("en");

const OUTCOMES = {
  failed: { sign: "✕", word: "failed", rank: 0 },
  invalid: { sign: "!", word: "invalid", rank: 1 },
  inconclusive: { sign: "◆", word: "inconclusive", rank: 2 },
  pending: { sign: "…", word: "pending", rank: 3 },
  skipped: { sign: "–", word: "skipped", rank: 4 },
  passed: { sign: "✓", word: "passed", rank: 5 },
};

const STATES = {
  r: { sign: "✓", word: "correct", kind: "correct" },
  w: { sign: "✕", word: "wrong", kind: "wrong" },
  s: { sign: "•", word: "scored", kind: "scored" },
  e: { sign: "!", word: "errored", kind: "errored" },
  u: { sign: "?", word: "unscored", kind: "unscored" },
  x: { sign: "○", word: "excluded", kind: "excluded" },
};

const TRUNCATED = 1, REGRESSED = 2, IMPROVED = 4, CUT_OFF = 8, LINE_IS_END = 16;

/** Three digits behind the point; three significant ones for small numbers, two for
 * tiny ones. */
function figure(value) {
  if (typeof value !== "number") return "–";
  const size = Math.abs(value);
  const small = size !== 0 && size < 0.001;
  const text = small ? (size < 1e-4 ? size.toExponential(1) : size.toPrecision(3)) : size >= 1e6 ? size.toPrecision(6) : size.toFixed(3);
  return value < 0 ? `−${text}` : text;
}

/** The same; an integer without digits behind the point. */
function shortNumber(value) {
  return Number.isInteger(value) ? count(value) : figure(value);
}

function signed(value) {
  return value < 0 ? figure(value) : `+${figure(value)}`;
}

/** A change in the unit of its gate: points, percent or plain. */
function moved(value, unit) {
  if (unit === "plain") return signed(value);
  const text = `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(2)}`;
  return unit === "percent" ? `${text} %` : `${text} points`;
}

function count(n) {
  return COUNT.format(n);
}

function plural(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}

function seconds(value) {
  const given = Number(value);
  if (!Number.isFinite(given)) return "";
  if (given < 59.95) return `${given.toFixed(1)} s`;
  const all = Math.round(given), minutes = Math.floor(all / 60), rest = all % 60;
  if (minutes < 60) return `${minutes} min ${rest} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A Unix time in UTC, to the minute. */
function moment(value) {
  if (typeof value !== "number") return "";
  return `${new Date(value * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** An identifier that may wrap behind its separators, and not inside of words. */
function breakable(text) {
  return text.split(/(?<=[/_:,\[-])|(?<=\.)(?!\d)/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));
}

/** A metric with its filter, unless there is none. */
function keyName(key) {
  return key.endsWith(",none") ? key.slice(0, -5) : key;
}

/** Quote a word for a shell. */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

function outcomeMark(outcome, { short = false } = {}) {
  const known = OUTCOMES[outcome] ?? { sign: "?", word: String(outcome) };
  return withSign(known.sign, known.word, known.word, short);
}

function stateMark(state, { short = false } = {}) {
  const known = STATES[state];
  return withSign(known.sign, known.word, known.kind, short);
}

/** A sign with its word, which may be for screen readers only. */
function withSign(sign, word, kind, short) {
  return h(`span.mark.is-${kind}`, h("span.sign", { "aria-hidden": "true", title: word }, sign), short ? h("span.unseen", word) : word);
}
