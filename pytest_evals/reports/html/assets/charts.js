// Drawings. Each has its words as a label, and says with shape what it says with
// colour.

function drawing(width, height, label, ...children) {
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);
}

const line = (x1, y1, x2, y2, kind) => s(`line.${kind}`, { x1, y1, x2, y2 });
const dot = (cx, cy, r, kind) => s(`circle.${kind}`, { cx, cy, r });
const box = (x, y, width, height, kind) => s(`rect.${kind}`, { x, y, width: Math.max(0, width), height });

function label(x, y, text, anchor = "middle", kind = "tick") {
  return s(`text.${kind}`, { x, y, "text-anchor": anchor }, text);
}

/** Standard errors on each side of a 90% confidence interval: both one-sided 95% limits. */
const REACH = 1.645;

/** The ends of an approximate 90% confidence interval, from the standard error. */
function aroundStderr({ value, stderr }) {
  if (typeof stderr !== "number") return null;
  return { low: value - REACH * stderr, high: value + REACH * stderr, name: "90% CI" };
}

/** A share from 0 to 1 with a confidence interval, if there is one. */
function scoreBar(metric, limits = aroundStderr(metric)) {
  const width = 112, height = 18, y = 9, pad = 5;
  const at = (v) => pad + Math.min(1, Math.max(0, v)) * (width - 2 * pad);
  const { value } = metric;
  if (typeof value !== "number" || value < 0 || value > 1) return "";
  const parts = [line(at(0), y, at(1), y, "track"), line(at(0), y, at(value), y, "level")];
  if (limits) {
    const ends = [limits.low, limits.high];
    parts.push(line(at(ends[0]), y, at(ends[1]), y, "error"));
    for (const end of ends) parts.push(line(at(end), y - 4, at(end), y + 4, "error"));
  }
  parts.push(dot(at(value), y, 3.5, "point"));
  const reach = limits ? `, ${limits.name} ${figure(limits.low)} to ${figure(limits.high)}` : "";
  return drawing(width, height, `${figure(value)} of 1${reach}`, parts);
}

/** Where a gate's number lies beside its bar. */
function gateChart(gate) {
  const change = gate.change;
  const scale = change && change.unit !== "plain" ? 100 : 1;
  const value = change ? change.difference : gate.value;
  const bars = change ? [{ op: change.op, value: change.bar }] : gate.bounds ?? [];
  if (typeof value !== "number" || !bars.length || bars.some((bar) => typeof bar.value !== "number")) return "";
  const spread = spreadOf(gate);
  const numbers = [value, ...bars.map((bar) => bar.value), spread.low, spread.high, ...(change ? [0] : [])];
  const [low, high] = domainOf(numbers.filter(Number.isFinite), change);
  const shown = (v) => (change ? moved(v, change.unit).replace(" points", "") : figure(v));
  return fluid((width) => {
    const height = 92, y = 48, pad = 16;
    const at = (v) => pad + ((Math.min(high, Math.max(low, v)) - low) / (high - low)) * (width - 2 * pad);
    const [from, to] = allowed(bars, low, high);
    const parts = [
      box(at(from), y - 15, at(to) - at(from), 30, "allowed"),
      line(pad, y, width - pad, y, "track"),
    ];
    if (change) parts.push(line(at(0), y - 15, at(0), y + 15, "zero"), label(at(0), y + 40, "unchanged", "middle", "tick.soft"));
    for (const bar of bars) {
      parts.push(line(at(bar.value), y - 20, at(bar.value), y + 20, "bar"));
      parts.push(label(clamped(at(bar.value), width), y - 26, `${{ ">=": "≥", "<=": "≤" }[bar.op] ?? bar.op} ${shown(bar.value)}`, "middle", "tick.strong"));
    }
    if (Number.isFinite(spread.low)) {
      parts.push(line(at(spread.low), y, at(spread.high), y, "error.wide"));
      for (const end of [spread.low, spread.high]) parts.push(line(at(end), y - 6, at(end), y + 6, "error.wide"));
    }
    parts.push(dot(at(value), y, 5.5, `point.is-${gate.outcome}`));
    parts.push(label(clamped(at(value), width), y + 26, shown(value), "middle", "tick.value"));
    const words = `${shown(value)}, bar ${bars.map((bar) => `${bar.op} ${shown(bar.value)}`).join(", ")}`;
    return drawing(width, height, scale === 100 ? `change of ${words}` : words, parts);
  });
}

function spreadOf(gate) {
  return gate.interval ?? { low: NaN, high: NaN };
}

const clamped = (x, width) => Math.min(width - 34, Math.max(34, x));

function domainOf(numbers, change) {
  let low = Math.min(...numbers), high = Math.max(...numbers);
  const room = (high - low || Math.abs(high) || 1) * 0.18;
  const isShare = !change && low >= 0 && high <= 1;
  low -= room;
  high += room;
  return isShare ? [Math.max(0, low), Math.min(1, high)] : [low, high];
}

/** The part of the axis that keeps all bounds. */
function allowed(bars, low, high) {
  let from = low, to = high;
  for (const bar of bars) {
    if (bar.op.startsWith(">")) from = Math.max(from, bar.value);
    else to = Math.min(to, bar.value);
  }
  return [from, Math.max(from, to)];
}

/** How many documents became what. */
function stack(counts, target) {
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

/** How the numbers of a task's documents are spread. */
function histogram(values, shownKey) {
  const found = values.filter((v) => v !== null);
  const low = found.reduce((a, b) => Math.min(a, b), Infinity);
  const high = found.reduce((a, b) => Math.max(a, b), -Infinity);
  if (found.length < 2 || low === high) return "";
  if (new Set(found).size <= 2) return ""; // the bar of correct and wrong shows it
  const n = 24;
  const bins = new Array(n).fill(0);
  for (const v of found) bins[Math.min(n - 1, Math.floor(((v - low) / (high - low)) * n))] += 1;
  const most = Math.max(...bins);
  return fluid((width) => {
    const height = 96, floor = 74, step = width / n;
    const bars = bins.map((m, i) => {
      const tall = (m / most) * (floor - 6);
      const bar = box(i * step + 1, floor - tall, step - 2, tall, "bin");
      bar.append(s("title", `${count(m)} documents from ${figure(low + (i * (high - low)) / n)}`));
      return bar;
    });
    return drawing(
      width, height, `${keyName(shownKey)} of ${found.length} documents from ${figure(low)} to ${figure(high)}`,
      bars, line(0, floor, width, floor, "track"),
      label(0, floor + 16, figure(low), "start"), label(width, floor + 16, figure(high), "end"),
    );
  });
}

/** A number over the stored runs; hollow points had different requests. */
function timeline(points) {
  const lows = points.map((p) => p.value - REACH * (p.stderr ?? 0));
  const highs = points.map((p) => p.value + REACH * (p.stderr ?? 0));
  let low = Math.min(...lows), high = Math.max(...highs);
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  return fluid((width) => {
    const height = 132, top = 12, floor = 104, left = 52, right = width - 14;
    const x = (i) => left + (points.length === 1 ? 0 : (i / (points.length - 1)) * (right - left));
    const y = (v) => floor - ((v - low) / (high - low)) * (floor - top);
    const path = points.map((p, i) => `${i ? "L" : "M"}${x(i)},${y(p.value)}`).join("");
    const parts = [
      line(left, floor, right, floor, "track"),
      label(left - 8, y(high) + 4, figure(high), "end"), label(left - 8, y(low) + 4, figure(low), "end"),
      s("path.trend", { d: path }),
    ];
    points.forEach((p, i) => {
      if (p.stderr) parts.push(line(x(i), y(p.value - REACH * p.stderr), x(i), y(p.value + REACH * p.stderr), "error"));
      const last = i === points.length - 1;
      const point = dot(x(i), y(p.value), last ? 5 : 3.5, p.same ? "point" : "point.hollow");
      point.append(s("title", `${figure(p.value)} · ${p.model} · ${moment(p.date)}${p.same ? "" : " · different requests"}`));
      parts.push(point);
    });
    parts.push(label(left, floor + 20, moment(points[0].date).slice(0, 10), "start"));
    parts.push(label(right, floor + 20, "this run", "end"));
    return drawing(width, height, `over ${points.length} runs: ${points.map((p) => figure(p.value)).join(", ")}`, parts);
  });
}

/** A few runs in the space of a word. */
function sparkline(points) {
  const width = 72, height = 18, values = points.map((p) => p.value);
  const low = Math.min(...values), high = Math.max(...values);
  const x = (i) => 3 + (i / (values.length - 1)) * (width - 6);
  const y = (v) => (high === low ? 9 : 15 - ((v - low) / (high - low)) * 12);
  const path = values.map((v, i) => `${i ? "L" : "M"}${x(i)},${y(v)}`).join("");
  return drawing(width, height, `over ${values.length} runs`, s("path.trend", { d: path }), dot(x(values.length - 1), y(values.at(-1)), 2.5, "point"));
}
