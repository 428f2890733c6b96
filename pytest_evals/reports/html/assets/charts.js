// Charts. Each has its numbers as a label; shapes and hatching repeat what colours show.

function drawing(width, height, label, ...children) {
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);
}

/** The hatching that means "wrong" where there is no colour. */
function hatching() {
  return s("svg.away", { "aria-hidden": "true" }, s("defs", s("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect.hatch-ground", { width: 5, height: 5 }), s("rect.hatch-line", { width: 1.6, height: 5 }))));
}

const line = (x1, y1, x2, y2, kind) => s(`line.${kind}`, { x1, y1, x2, y2 });
const dot = (cx, cy, r, kind) => s(`circle.${kind}`, { cx, cy, r });
const box = (x, y, width, height, kind) => s(`rect.${kind}`, { x, y, width: Math.max(0, width), height });

function label(x, y, text, anchor = "middle", kind = "tick") {
  return s(`text.${kind}`, { x, y, "text-anchor": anchor }, text);
}

/** Standard errors on each side of a 90% confidence interval: both one-sided 95% limits. */
const REACH = 1.645;

/** The ends of an approximate 90% confidence interval, from the standard error; without
 * a spread, all correct or all wrong, by Wilson's method. */
function aroundStderr({ value, stderr, n }) {
  if (typeof stderr !== "number") return null;
  if (stderr === 0 && n && (value === 0 || value === 1)) return wilson(value * n, n);
  return { low: value - REACH * stderr, high: value + REACH * stderr, name: "90% CI" };
}

/** A fraction from 0 to 1 with a confidence interval, if there is one. */
function scoreBar(metric, limits = aroundStderr(metric), width = 112) {
  const height = 18, y = 9, pad = 5;
  const at = (v) => pad + Math.min(1, Math.max(0, v)) * (width - 2 * pad);
  const { value } = metric;
  if (typeof value !== "number" || value < 0 || value > 1) return "";
  const parts = [line(at(0), y, at(1), y, "track"), line(at(0), y, at(value), y, "level")];
  if (limits) parts.push(errorBar(at(limits.low), at(limits.high), y, 4));
  parts.push(dot(at(value), y, 3.5, "point"));
  const reach = limits ? `, ${limits.name} ${figure(limits.low)} to ${figure(limits.high)}` : "";
  return drawing(width, height, `${figure(value)} of 1${reach}`, parts);
}

function errorBar(from, to, y, tall) {
  return [line(from, y, to, y, "error"), ...[from, to].map((x) => line(x, y - tall, x, y + tall, "error"))];
}

/** Both confidence limits at 90% of a fraction by Wilson's method. */
function wilson(k, n) {
  const z = REACH, middle = k + z * z / 2, wide = z * Math.sqrt((k * (n - k)) / n + z * z / 4);
  return { low: (middle - wide) / (n + z * z), high: (middle + wide) / (n + z * z), name: "90% CI" };
}

/** The common scale of gates: what its numbers reach, in round steps. */
function axisOf(gates) {
  const numbers = gates.flatMap((gate) => [
    numberOfGate(gate), ...thresholdsOf(gate).map(({ value }) => value), gate.interval?.low, gate.interval?.high, gate.change ? 0 : null,
  ]).filter(Number.isFinite);
  if (!numbers.length || !gates.some((gate) => thresholdsOf(gate).length)) return null;
  let low = Math.min(...numbers), high = Math.max(...numbers);
  const step = niceStep((high - low || Math.abs(high) || 1) / 3);
  [low, high] = [Math.floor(low / step) * step, Math.ceil(high / step) * step];
  return { low, high: high === low ? low + step : high, step, change: gates[0].change };
}

/** 1, 2 or 5 times a power of ten, at least as large. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((one) => one * power >= least * 0.999);
}

const AXIS_PAD = 14;

const placeOn = (axis, width) => (v) => AXIS_PAD + ((Math.min(axis.high, Math.max(axis.low, v)) - axis.low) / (axis.high - axis.low)) * (width - 2 * AXIS_PAD);

function axisTicks(axis) {
  const n = Math.round((axis.high - axis.low) / axis.step);
  const ticks = Array.from({ length: n + 1 }, (_, i) => axis.low + i * axis.step);
  const shown = (v) => (axis.change ? (Math.abs(v) < axis.step / 1e6 ? "0" : bare(v, axis.change)) : String(+v.toPrecision(6)));
  return fluid((width) => {
    const at = placeOn(axis, width);
    return drawing(width, 16, "scale", ticks.map((v) => [line(at(v), 12, at(v), 16, "track"), label(at(v), 9, shown(v))]));
  }, 120);
}

/** Value, confidence interval and threshold of a gate on a common scale. */
function gateLine(gate, axis) {
  const value = numberOfGate(gate), bars = thresholdsOf(gate), { interval } = gate;
  if (typeof value !== "number" || !bars.length) return "";
  return fluid((width) => {
    const at = placeOn(axis, width), y = 11;
    const [from, to] = allowed(bars, axis.low, axis.high);
    const parts = [box(at(from), y - 7, at(to) - at(from), 14, "allowed"), line(AXIS_PAD, y, width - AXIS_PAD, y, "track")];
    if (gate.change) parts.push(line(at(0), y - 9, at(0), y + 9, "zero"));
    for (const bar of bars) parts.push(line(at(bar.value), y - 10, at(bar.value), y + 10, "bar"));
    if (interval && Number.isFinite(interval.low)) parts.push(errorBar(at(interval.low), at(interval.high), y, 5));
    parts.push(pointOf(gate.outcome, at(value), y));
    const words = `${shownBound(value, gate.change)}, threshold ${bars.map((bar) => `${bar.op} ${shownThreshold(bar.value, gate.change)}`).join(", ")}`;
    return drawing(width, 22, interval ? `${words}, ${intervalText(gate)}` : words, parts);
  }, 120);
}

/** A shape for each outcome. */
function pointOf(outcome, x, y) {
  const r = 5, kind = `point.is-${outcome}`;
  if (outcome === "passed") return dot(x, y, r, kind);
  if (outcome === "failed") return s("path.cross", { d: `M${x - r},${y - r}L${x + r},${y + r}M${x - r},${y + r}L${x + r},${y - r}` });
  if (outcome === "inconclusive") return s(`path.${kind}`, { d: `M${x},${y - r - 1}L${x + r + 1},${y}L${x},${y + r + 1}L${x - r - 1},${y}Z` });
  return s(`rect.point.hollow.is-${outcome}`, { x: x - r, y: y - r, width: 2 * r, height: 2 * r });
}

/** The part of the axis that meets all bounds. */
function allowed(bars, low, high) {
  let from = low, to = high;
  for (const bar of bars) {
    if (bar.op.startsWith(">")) from = Math.max(from, bar.value);
    else to = Math.min(to, bar.value);
  }
  return [from, Math.max(from, to)];
}

/** Numbers of documents by state. */
function stack(counts) {
  const parts = Object.entries(counts).filter(([, n]) => n > 0);
  const all = parts.reduce((sum, [, n]) => sum + n, 0);
  return fluid((width) => {
    let x = 0;
    const boxes = parts.map(([word, n]) => {
      const wide = (n / all) * width;
      const found = box(x, 0, Math.max(1.5, wide - 1), 10, `share.is-${word}`);
      found.append(s("title", `${count(n)} ${word}`));
      x += wide;
      return found;
    });
    return drawing(width, 10, parts.map(([word, n]) => `${n} ${word}`).join(", "), boxes);
  }, 120);
}

/** Distribution of a number over documents; the hatched part of a bar is wrong. */
function histogram(docs, valueOfDoc, name) {
  const pairs = docs.map((doc) => [valueOfDoc(doc), doc.state]).filter(([v]) => v !== null);
  const low = pairs.reduce((least, [v]) => Math.min(least, v), Infinity);
  const high = pairs.reduce((most, [v]) => Math.max(most, v), -Infinity);
  if (pairs.length < 2 || low === high) return "";
  if (new Set(pairs.map(([v]) => v)).size <= 2) return ""; // the bar of correct and wrong shows it
  const n = 24;
  const bins = Array.from({ length: n }, () => ({ wrong: 0, rest: 0 }));
  for (const [v, state] of pairs) bins[Math.min(n - 1, Math.floor(((v - low) / (high - low)) * n))][state === "w" ? "wrong" : "rest"] += 1;
  const most = Math.max(...bins.map((bin) => bin.wrong + bin.rest));
  return fluid((width) => {
    const height = 120, top = 14, floor = 98, left = 44, step = (width - left - 8) / n;
    const tall = (m) => (m / most) * (floor - top);
    const bars = bins.map(({ wrong, rest }, i) => {
      const x = left + i * step + 1, from = low + (i * (high - low)) / n;
      return s("g", s("title", `${shortNumber(from)} to ${shortNumber(from + (high - low) / n)}: ${plural(wrong + rest, "document")}, ${count(wrong)} wrong`), box(x, floor - tall(wrong + rest), step - 2, tall(rest), "bin"), box(x, floor - tall(wrong), step - 2, tall(wrong), "bin.is-wrong"));
    });
    return drawing(
      width, height, `${name} of ${pairs.length} documents from ${shortNumber(low)} to ${shortNumber(high)}`,
      bars, line(left, floor, width - 8, floor, "track"), label(left - 6, top + 4, count(most), "end"), label(left - 6, floor + 4, "0", "end"),
      label(left, floor + 16, shortNumber(low), "start"), label(width - 8, floor + 16, shortNumber(high), "end"),
    );
  });
}

/** Accuracy of each bin of confidence; on the dashed line both are equal. */
function calibrationChart(bins) {
  return fluid((all) => {
    const width = Math.min(all, 420), height = 260, left = 44, top = 10, floor = 218, right = width - 12;
    const x = (v) => left + v * (right - left), y = (v) => floor - v * (floor - top);
    const parts = [s("path.diagonal", { d: `M${x(0)},${y(0)}L${x(1)},${y(1)}` }), line(left, floor, right, floor, "track"), line(left, top, left, floor, "track")];
    for (const v of [0, 0.5, 1]) parts.push(label(x(v), floor + 15, String(v)), label(left - 7, y(v) + 4, String(v), "end"));
    for (const { confidence, k, n } of bins) {
      const { low, high } = wilson(k, n), cx = x(confidence);
      parts.push(line(cx, y(low), cx, y(high), "error"));
      const point = dot(cx, y(k / n), 4.5, "point");
      point.append(s("title", `confidence ${figure(confidence)}, accuracy ${figure(k / n)}, ${plural(n, "document")}`));
      parts.push(point);
    }
    parts.push(label((left + right) / 2, height - 8, "confidence"), label(left + 6, top + 4, "accuracy", "start"));
    return drawing(width, height, `accuracy by confidence: ${bins.map(({ confidence, k, n }) => `${figure(confidence)}: ${figure(k / n)} of ${n}`).join("; ")}`, parts);
  });
}

/** A metric over the stored runs with thresholds of gates; diamonds are baselines, hollow points had different requests. */
function timeline(points, bounds) {
  const reach = (p) => REACH * (p.stderr ?? 0);
  const numbers = [...points.flatMap((p) => [p.value - reach(p), p.value + reach(p)]), ...bounds.map(({ value }) => value)];
  let low = Math.min(...numbers), high = Math.max(...numbers);
  if (low === high) [low, high] = low >= 0 && low <= 1 ? [0, 1] : [low - 0.5, high + 0.5];
  return fluid((width) => {
    const height = 150, top = 20, floor = 118, left = 52, right = width - 64;
    const x = (i) => left + 8 + (points.length === 1 ? 0 : (i / (points.length - 1)) * (right - left - 16));
    const y = (v) => floor - ((v - low) / (high - low)) * (floor - top);
    const path = points.map((p, i) => `${i ? "L" : "M"}${x(i)},${y(p.value)}`).join("");
    const parts = [
      line(left, floor, right, floor, "track"),
      label(left - 8, y(high) + 4, figure(high), "end"), label(left - 8, y(low) + 4, figure(low), "end"),
      s("path.trend", { d: path }),
    ];
    for (const { op, value } of bounds) parts.push(line(left, y(value), right, y(value), "threshold"), label(right + 4, y(value) + 4, `${OPERATORS[op] ?? op} ${+value.toPrecision(4)}`, "start", "tick.strong"));
    points.forEach((p, i) => {
      if (p.stderr) parts.push(line(x(i), y(p.value - reach(p)), x(i), y(p.value + reach(p)), "error"));
      parts.push(runPoint(p, x(i), y(p.value), i === points.length - 1));
      if (p.baseline) parts.push(label(clamped(x(i), width), Math.max(11, y(p.value + reach(p)) - 7), p.baseline, "middle", "tick.strong"));
    });
    parts.push(label(left, floor + 20, moment(points[0].date).slice(0, 10), "start"));
    parts.push(label(right, floor + 20, "this run", "end"));
    const words = [`over ${points.length} runs: ${points.map((p) => figure(p.value) + (p.baseline ? ` (baseline ${p.baseline})` : "")).join(", ")}`, ...bounds.map(({ op, value }) => `threshold ${op} ${figure(value)}`)];
    return drawing(width, height, words.join("; "), parts);
  });
}

function runPoint(p, x, y, isLast) {
  const r = isLast ? 5 : 3.5, kind = p.same ? "point" : "point.hollow";
  const point = p.baseline ? s(`path.${kind}`, { d: `M${x},${y - 6}L${x + 6},${y}L${x},${y + 6}L${x - 6},${y}Z` }) : dot(x, y, r, kind);
  point.append(s("title", `${figure(p.value)} · ${p.model} · ${moment(p.date)}${p.baseline ? ` · baseline ${p.baseline}` : ""}${p.same ? "" : " · different requests"}`));
  return point;
}

const clamped = (x, width) => Math.min(width - 34, Math.max(34, x));

/** A timeline of the size of a word. */
function sparkline(points) {
  const width = 72, height = 18, values = points.map((p) => p.value);
  const low = Math.min(...values), high = Math.max(...values);
  const x = (i) => 3 + (i / (values.length - 1)) * (width - 6);
  const y = (v) => (high === low ? 9 : 15 - ((v - low) / (high - low)) * 12);
  const path = values.map((v, i) => `${i ? "L" : "M"}${x(i)},${y(v)}`).join("");
  return drawing(width, height, `over ${values.length} runs`, s("path.trend", { d: path }), dot(x(values.length - 1), y(values.at(-1)), 2.5, "point"));
}
