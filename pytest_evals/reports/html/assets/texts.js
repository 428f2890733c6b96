// Texts of models and data: all of it, as it is, with what the eye would miss made
// visible.

const LONGEST = 20000; // characters that are shown before somebody asks for more
const SIGNS = "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]";
const SPACES = /[\n\t ]/;

let marksSpaces = false;

/** Pieces of a text: signs without a shape by their names, special tokens as such. */
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
  return h("span.sign-chip", { title: `U+${code}, a character without a shape` }, `U+${code}`);
}

function spaceChip(space) {
  const shown = { " ": "·", "\t": "→\t", "\n": "⏎\n" }[space];
  return h("span.space", shown);
}

/** What was asked, on one line; of one whose beginning says little, its end. */
function questionLine(doc) {
  return h(doc.flags & LINE_IS_END ? "span.question.is-end" : "span.question", h("bdi", doc.question));
}

/** A block of text; of a very long one the beginning, and a way to the rest. */
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
  pre.append(...visible(text.slice(0, LONGEST)));
  const more = h("button.quiet", { type: "button" }, `show all ${count(text.length)} characters`);
  more.addEventListener("click", () => pre.replaceChildren(...visible(text)));
  pre.append(h("div", more));
  return pre;
}
