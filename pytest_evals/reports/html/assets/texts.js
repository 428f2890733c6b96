// Text of models and data, complete and unchanged, with invisible characters made
// visible.

const LONGEST = 20000; // characters shown at first
const SIGNS = "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]";
const SPACES = /[\n\t ]/;

let marksSpaces = false;

/** Pieces of a text: invisible characters by their code points, special tokens marked. */
function visible(text) {
  const found = [];
  for (const piece of text.split(splitter())) {
    if (!piece) continue;
    if (piece.length === 1 && new RegExp(SIGNS).test(piece)) found.push(signChip(piece));
    else if (isSpecial(piece)) found.push(h("span.token", { title: "special token" }, piece));
    else if (marksSpaces && piece.length === 1 && SPACES.test(piece)) found.push(spaceChip(piece));
    else found.push(piece);
  }
  return found;
}

let knownSplitter = null;

function splitter() {
  if (knownSplitter?.spaces !== marksSpaces) {
    const escaped = run.facts.special.map((token) => token.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const parts = [SIGNS, ...escaped.sort((a, b) => b.length - a.length), "<\\|[^\\s|<>]{1,40}\\|>"];
    if (marksSpaces) parts.push("[\\n\\t ]");
    knownSplitter = { spaces: marksSpaces, pattern: new RegExp(`(${parts.join("|")})`) };
  }
  return knownSplitter.pattern;
}

function isSpecial(piece) {
  return run.facts.special.includes(piece) || /^<\|[^\s|<>]{1,40}\|>$/.test(piece);
}

function signChip(sign) {
  const code = sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return h("span.sign-chip", { title: `U+${code}, an invisible character` }, `U+${code}`);
}

function spaceChip(space) {
  const shown = { " ": "·", "\t": "→\t", "\n": "⏎\n" }[space];
  return h("span.space", shown);
}

/** The question on one line; of a prompt without a separate question, its end. */
function questionLine(doc) {
  return h(doc.flags & LINE_IS_END ? "span.question.is-end" : "span.question", h("bdi", doc.question));
}

/** The start of a text, without half of a character at its end. */
function beginning(text, n) {
  if (text.length <= n) return text;
  return text.slice(0, n).replace(/[\ud800-\udbff\u200d\ufe0f]+$/, "");
}

/** A block of text; of a very long one the beginning, with a button for the rest. */
function block(text, kind = "text") {
  const pre = h(`pre.${kind}`);
  if (!text) {
    pre.append(h("em", "empty"));
    return pre;
  }
  if (text.length <= LONGEST) {
    pre.append(...visible(text));
    return pre;
  }
  pre.append(...visible(beginning(text, LONGEST)));
  const more = h("button.quiet", { type: "button" }, `show all ${count(text.length)} characters`);
  more.addEventListener("click", () => pre.replaceChildren(...visible(text)));
  pre.append(h("div", more));
  return pre;
}
