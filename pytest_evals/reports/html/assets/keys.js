// Everything by keyboard.

const KEYS = [
  ["1 … 5", "views"], ["j  k", "next and previous document"], ["/", "search"], ["f", "next kind of documents"],
  ["b", "show whitespace"], ["c", "copy the node id"], ["t", "light, dark"], ["Esc", "hide or show the document"], ["?", "this help"],
];

const help = h(
  "dialog",
  { "aria-label": "keys", click: (event) => { if (event.target === help) help.close(); } },
  h("h2", "Keys"),
  h("dl.keys", KEYS.map(([key, what]) => [h("dt", key.split(/\s+/).map((one) => (one === "…" ? " … " : h("kbd", one)))), h("dd", what)])),
  h("form", { method: "dialog" }, h("button.quiet", "close")),
);

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const typing = event.target.closest?.("input, select, textarea");
  if (typing) {
    if (event.key === "Escape") typing.blur();
    if (typing === documents?.search && ["ArrowDown", "Enter"].includes(event.key)) {
      typing.blur();
      documents.move(documents.list.at < 0 ? 1 : 0);
      event.preventDefault();
    }
    return;
  }
  const act = actionOf(event.key);
  if (!act) return;
  event.preventDefault();
  act();
}

function actionOf(key) {
  const views = viewsOffered();
  if (/^[1-9]$/.test(key) && views[Number(key) - 1]) return () => addresses.push(address(views[Number(key) - 1][0]));
  const inList = current.view === "documents" && documents;
  const moves = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1, PageDown: documents?.list.pageRows(), PageUp: -(documents?.list.pageRows() ?? 1), Home: -Infinity, End: Infinity };
  const focused = document.activeElement === documents?.list.node;
  if (inList && key in moves && (focused || key === "j" || key === "k")) return () => documents.move(moves[key]);
  const others = {
    "/": () => { if (!inList) addresses.push(address("documents")); requestAnimationFrame(() => documents.search.select()); },
    "?": () => help.showModal(),
    t: turnTheme,
    Escape: inList ? () => documents.back() : null,
    f: inList ? () => documents.nextShow() : null,
    b: inList ? () => { marksSpaces = !marksSpaces; refresh(); } : null,
    c: inList ? () => documents.pane.querySelector(".node-line button")?.click() : null,
  };
  return others[key] ?? null;
}
