// Titles of columns for the cards that rows are on phones; pipes in code, which Markdown
// escapes in tables; line breaks of names after - and _.
function prepareTables() {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const titles = [...table.querySelectorAll("thead th")].map((one) => one.textContent.trim());
    for (const code of table.querySelectorAll("td code")) {
      const parts = code.textContent.replaceAll("\\|", "|").split(/(?<=\w[-_])(?=\w)/);
      code.replaceChildren(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
    }
    if (titles.length < 3) continue;
    table.dataset.cards = "";
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, at) => {
        if (cell.textContent.trim() === "-") cell.dataset.none = "";
        else if (titles[at]) cell.dataset.title = titles[at];
      });
    }
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", prepareTables);
else prepareTables();
