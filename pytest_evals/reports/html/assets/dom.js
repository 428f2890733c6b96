// Elements. Text becomes text nodes only, so model output is never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("p.note", {title: "…"}, "text", child, …); children may be arrays. */
function h(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  return filled(document.createElement(tag), classes, rest);
}

/** The same in a drawing. */
function s(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  return filled(document.createElementNS(SVG, tag), classes, rest);
}

function filled(node, classes, rest) {
  if (classes.length) node.setAttribute("class", classes.join(" "));
  if (isPlain(rest[0])) attributes(node, rest.shift());
  for (const child of rest.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

function isPlain(value) {
  return value && Object.getPrototypeOf(value) === Object.prototype;
}

function attributes(node, given) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
}

/** A link inside the page. */
function link(view, parameters, ...children) {
  return h("a", { href: address(view, parameters) }, ...children);
}

/** "#/documents?task=arc&show=wrong"; empty parameters are left out. */
function address(view, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  const query = new URLSearchParams(given).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

/** A button that copies a text and confirms it. */
function copyButton(text, label, title = "") {
  const button = h("button.quiet", { type: "button", title: title || null, click: () => copy(text).then(done) }, label);
  function done() {
    button.textContent = "copied";
    setTimeout(() => { button.textContent = label; }, 1200);
  }
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea.away", {});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** A drawing that fits the width of its container. */
function fluid(draw, least = 220) {
  const box = h("div.chart");
  let last = 0;
  const redraw = () => {
    const width = Math.max(least, Math.floor(box.clientWidth));
    if (width === last || !box.clientWidth) return;
    last = width;
    box.replaceChildren(draw(width));
  };
  box.redraw = (scale) => {
    if (!box.clientWidth) return;
    last = Math.floor(box.clientWidth * scale);
    box.replaceChildren(draw(last));
  };
  // Drawing changes the size, which an observer may not do at once.
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(box);
  return box;
}
