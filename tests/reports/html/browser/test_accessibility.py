"""The page in both themes, checked by axe-core."""

from __future__ import annotations

from importlib.resources import files

import pytest

axe = pytest.importorskip("axe_playwright_python")
VIEWS = (
    *("summary", "gates", "task?name=quiz", "task?name=capitals", "task?name=all"),
    *("documents", "documents?doc=quiz/1", "documents?doc=-", "changes", "run"),
)
RUN = """async () => {
    const {violations} = await axe.run(document, {resultTypes: ["violations"]});
    return violations
        .filter(({impact}) => impact === "serious" || impact === "critical")
        .map(({id, nodes}) => `${id}: ${nodes.map(one => one.html).join(" ")}`);
}"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 375)]
)
def test_axe_has_no_serious_complaint(tab, story, theme, width):
    page = tab.page
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 800})
    try:
        for view in VIEWS:
            tab.open(story, f"#/{view}")
            if view.startswith("documents"):
                page.wait_for_selector(".doc:visible, .document:visible")
            page.evaluate(files(axe).joinpath("axe.min.js").read_text("utf-8"))
            page.evaluate(
                "document.querySelectorAll('details').forEach(one => one.open = true)"
            )
            assert page.evaluate(RUN) == [], view
    finally:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 800})
