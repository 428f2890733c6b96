// The frame: header, views and the address.

const VIEWS = { summary: summaryView, gates: gatesView, task: taskView, documents: documentsView, changes: changesView, run: environmentView };
const current = { view: "", parameters: new URLSearchParams() };

const addresses = {
  push: (to) => { location.hash = to; },
  replace: (to) => {
    try {
      history.replaceState(null, "", to);
    } catch {
      // browsers limit the rate; a key that is held down exceeds it
    }
    show(to);
  },
};

function viewsOffered() {
  return [
    ["summary", "Summary"],
    ...(run.facts.gates.length ? [["gates", "Gates"]] : []),
    ...(run.n ? [["documents", "Documents"]] : []),
    ...(run.facts.comparison || otherRuns().length ? [["changes", run.facts.comparison ? "Changes" : "Runs"]] : []),
    ["run", "Run"],
  ];
}

const place = h("main", { id: "main" });
const tabs = h("nav", { "aria-label": "views" });

function show(to = location.hash) {
  const [view, query] = to.replace(/^#\//, "").split("?");
  current.parameters = new URLSearchParams(query ?? "");
  current.view = view in VIEWS ? view : firstView();
  const node = VIEWS[current.view](current.parameters);
  if (place.firstChild !== node) {
    place.replaceChildren(node);
    if (!current.parameters.has("gate")) scrollTo(0, 0);
  }
  document.body.dataset.view = current.view;
  const chosen = current.view === "task" ? "summary" : current.view;
  tabs.replaceChildren(...viewsOffered().map(([name, title]) => h("a", { href: address(name), "aria-current": name === chosen ? "page" : null }, title)));
}

/** Draw the current view again. */
function refresh() {
  if (current.view === "documents") documents.redraw();
  else show();
}

const PAPER = 700; // pixels between the margins of A4

/** Draw charts as wide as on paper, or on the screen again, so that their text keeps its size. */
function drawCharts(scale) {
  for (const chart of document.querySelectorAll(".chart")) chart.redraw(scale);
}

/** The gates if one of them failed, else the summary. */
function firstView() {
  const isRed = (gate) => ["failed", "invalid"].includes(gate.outcome) || (gate.outcome === "inconclusive" && gate.interval?.policy === "fail");
  return run.facts.gates.some(isRed) ? "gates" : "summary";
}

function turnTheme() {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (isDark ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("evals-theme", theme);
  } catch {
    // pages opened from disk may have no storage
  }
}

function keptTheme() {
  try {
    return localStorage.getItem("evals-theme");
  } catch {
    return null;
  }
}

async function start() {
  const theme = keptTheme();
  if (theme) document.documentElement.dataset.theme = theme;
  const app = document.getElementById("app");
  if (!("DecompressionStream" in window)) {
    app.append(h("p.trouble", "This page needs a browser of 2023 or later."));
    return;
  }
  await loadFacts();
  await loadIndex();
  app.append(
    h("a.skip", { href: "#main", click: (event) => { event.preventDefault(); place.focus(); } }, "to the content"),
    h("div.top", h("a.brand", { href: address("summary") }, "evals"), tabs, h("div.right", h("button.quiet", { type: "button", click: turnTheme, title: "light or dark (t)", "aria-label": "light or dark" }, "◐"), h("button.quiet.help", { type: "button", click: () => help.showModal(), title: "keys (?)", "aria-label": "keys" }, "?"))),
    place,
    help,
    hatching(),
  );
  place.tabIndex = -1;
  addEventListener("hashchange", () => show());
  addEventListener("keydown", onKey);
  addEventListener("beforeprint", () => drawCharts(Math.min(1, PAPER / (place.querySelector(".page > *, .document")?.clientWidth || PAPER))));
  addEventListener("afterprint", () => drawCharts(1));
  show();
  document.documentElement.dataset.ready = "";
}

start();
