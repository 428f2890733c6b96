// Models side by side: metrics with paired changes, and a matrix of documents.

const SHOWN = 200; // documents that are added at a time
const FILTERS = ["all", "all correct", "all wrong", "they disagree"];

function modelsPage(data) {
  const matrix = h("tbody"), count = h("span.soft"), more = h("button.quiet", { type: "button" });
  const state = { agreement: "all", text: "", shown: SHOWN };

  function matches(doc) {
    const isKind = state.agreement === "all" || doc.agreement === state.agreement;
    return isKind && (!state.text || `${doc.task}[${doc.id}]`.toLowerCase().includes(state.text));
  }

  function draw() {
    const found = data.documents.filter(matches);
    matrix.replaceChildren(...found.slice(0, state.shown).map((doc) => documentRow(doc, data.models)));
    count.textContent = `${found.length.toLocaleString("en")} of ${data.documents.length.toLocaleString("en")} documents`;
    more.textContent = `${Math.min(SHOWN, found.length - state.shown)} more`;
    more.hidden = found.length <= state.shown;
  }

  const choice = h("select", { "aria-label": "agreement", change: (event) => {
    Object.assign(state, { agreement: event.target.value, shown: SHOWN });
    draw();
  } }, FILTERS.map((name) => h("option", { value: name }, filterTitle(data, name))));
  const search = h("input", { type: "search", placeholder: "task[id]", "aria-label": "search", input: (event) => {
    Object.assign(state, { text: event.target.value.toLowerCase(), shown: SHOWN });
    draw();
  } });
  more.addEventListener("click", () => {
    state.shown += SHOWN;
    draw();
  });
  draw();
  const names = data.models.map((name) => h("th", { scope: "col" }, modelName(data, name)));
  return h("main.models", { id: "main" },
    h("h1", {}, "Models"),
    h("p.soft", {}, data.notes.join(" · ")),
    data.refused.map((text) => h("p", {}, `warning: ${text}`)),
    h("div.wide", {}, h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, "task"), h("th", {}, "metric"), names)),
      h("tbody", {}, data.metrics.map((row) => metricRow(row, data.models))))),
    data.documents.length > 0 && [
      h("h2", {}, "Documents"),
      h("p.choices", {}, choice, " ", search, " ", count),
      h("div.wide", {}, h("table", {},
        h("thead", {}, h("tr", {}, h("th", {}, "document"), h("th", {}, "target"), names.map((one) => one.cloneNode(true)))),
        matrix)),
      more,
    ]);
}

function modelName(data, name) {
  const page = data.pages[name];
  return page ? h("a", { href: page }, name) : name;
}

function filterTitle(data, name) {
  const n = data.documents.filter((doc) => name === "all" || doc.agreement === name).length;
  return `${name} (${n.toLocaleString("en")})`;
}

function metricRow(row, models) {
  return h("tr", {}, h("td", {}, row.task), h("td", {}, row.metric), row.cells.map((cell, n) =>
    h(cell.better === null ? "td" : `td.${cell.better ? "good" : "bad"}`, { "data-model": models[n] },
      h("strong", {}, cell.value),
      [cell.change && `${cell.change} ${cell.limits}`, cell.p && `p ${cell.p}`, cell.rank && `rank ${cell.rank}, first ${cell.first}`]
        .filter(Boolean).map((text) => h("div.soft", {}, text)))));
}

function documentRow(doc, models) {
  return h("tr", {}, h("td", {}, `${doc.task}[${doc.id}]`), h("td", {}, doc.target), doc.correct.map((correct, n) =>
    h(correct === null ? "td" : `td.${correct ? "good" : "bad"}`, { "data-model": models[n] },
      `${correct === null ? "–" : correct ? "✓" : "✗"} `, doc.answers[n])));
}

unpack(document.getElementById("models").textContent).then((data) => {
  document.getElementById("app").replaceChildren(modelsPage(data));
  document.documentElement.dataset.ready = "";
});
