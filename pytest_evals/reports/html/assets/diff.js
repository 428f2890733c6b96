// Differences between two texts, word by word.

// Letters keep their accents, emoji their skin tones and families, flags both halves.
const EMOJI = "\\p{Extended_Pictographic}(?:\\p{Emoji_Modifier}|[\\ufe0e\\ufe0f\\u20e3]|[\\u{e0020}-\\u{e007f}])*";
const WORDS = new RegExp(`\\s+|[\\p{L}\\p{M}\\p{N}_\\u200c]+|\\p{RI}\\p{RI}|${EMOJI}(?:\\u200d${EMOJI})*|[^\\s\\p{L}\\p{N}_]\\p{M}*`, "gu");
const MOST = 4e6; // cells of the table; beyond it the middle counts as replaced

/** Pairs of "same", "out" or "in" and a text. */
function difference(before, now) {
  const a = before.match(WORDS) ?? [], b = now.match(WORDS) ?? [];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const steps = [["same", a.slice(0, start).join("")]];
  steps.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)));
  steps.push(["same", a.slice(a.length - end).join("")]);
  return joined(steps);
}

/** By the longest common sequence of words. */
function middle(a, b) {
  const rows = a.length, columns = b.length;
  if (rows * columns > MOST) return [["out", a.join("")], ["in", b.join("")]];
  const wide = columns + 1;
  const longest = new Uint32Array((rows + 1) * wide);
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) {
      longest[i * wide + j] = a[i] === b[j]
        ? longest[(i + 1) * wide + j + 1] + 1
        : Math.max(longest[(i + 1) * wide + j], longest[i * wide + j + 1]);
    }
  }
  const steps = [];
  let i = 0, j = 0;
  while (i < rows || j < columns) {
    if (i < rows && j < columns && a[i] === b[j]) {
      steps.push(["same", a[i]]);
      i += 1;
      j += 1;
    } else if (j === columns || (i < rows && longest[(i + 1) * wide + j] >= longest[i * wide + j + 1])) {
      steps.push(["out", a[i]]);
      i += 1;
    } else {
      steps.push(["in", b[j]]);
      j += 1;
    }
  }
  return steps;
}

function joined(steps) {
  const found = [];
  for (const [kind, text] of steps) {
    if (!text) continue;
    if (found.at(-1)?.[0] === kind) found.at(-1)[1] += text;
    else found.push([kind, text]);
  }
  return found;
}

/** A word diff of the results file, "the [-sum-]{+total+} of", with its marks as elements. */
function wordDiff(text) {
  return text.split(/(\[-[^]*?-\]|\{\+[^]*?\+\})/).map((part) => {
    if (part.length > 3 && part.startsWith("[-") && part.endsWith("-]")) return h("del", part.slice(2, -2));
    if (part.length > 3 && part.startsWith("{+") && part.endsWith("+}")) return h("ins", part.slice(2, -2));
    return part;
  });
}

/** Both texts side by side with their differences marked; of long ones the beginning. */
function sideBySide(before, now, titles) {
  const isLong = Math.max(before.length, now.length) > LONGEST;
  const steps = difference(beginning(before, LONGEST), beginning(now, LONGEST));
  const side = (kind, tag) => steps
    .filter(([step]) => step === "same" || step === kind)
    .map(([step, text]) => (step === "same" ? visible(text) : h(tag, visible(text))));
  return h(
    "div.pair",
    h("div", h("h4", titles[0]), h("pre.text", before ? side("out", "del") : h("em", "empty"))),
    h("div", h("h4", titles[1]), h("pre.text", now ? side("in", "ins") : h("em", "empty"))),
    h("p.key", h("del", "only in the baseline"), "  ", h("ins", "only in this run")),
    isLong ? h("p.soft", `the first ${count(LONGEST)} characters of each`) : null,
  );
}
