"""Pages with too many documents to draw or to embed all of them."""

from __future__ import annotations

import shutil

import pytest

from pytest_evals.reports.html.chunks import packed
from pytest_evals.reports.html.page import page_html
from pytest_evals.reports.html.write import write_html

sync_api = pytest.importorskip("playwright.sync_api")

N_MANY = 100_000
MILLISECONDS = """async () => {
    const list = document.querySelector(".list");
    const took = [];
    for (let i = 1; i <= 30; i += 1) {
        const start = performance.now();
        list.scrollTop = (list.scrollHeight * i) / 30;
        list.dispatchEvent(new Event("scroll"));
        list.getBoundingClientRect();
        took.push(performance.now() - start);
        await new Promise(requestAnimationFrame);
    }
    return took.sort((a, b) => a - b)[15];
}"""
"""Usual time until rows are drawn after the list was scrolled."""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A page of very many documents, with identical rows."""
    size = 500
    whole = {
        "id": "any", "doc_id": 0, "status": "scored", "error": "", "correct": True,
        "prompts": [[{"title": "", "text": "any question"}]], "asked": [],
        "answers": [["yes"]], "finish": [], "exchanges": [], "tokens": {},
        "target": "yes",
        "wanted": "yes", "excluded": "", "scores": [], "row": "", "hashes": {},
        "before": None,
    }  # fmt: skip
    numbers = range(N_MANY)
    task = {
        "task": "many",
        "first": 0,
        "sizes": [size] * (N_MANY // size),
        "states": "".join("rw"[n % 3 == 0] for n in numbers),
        "values": {"acc,none": [n % 1000 / 1000 for n in numbers]},
        "id": [f"m{n}" for n in numbers],
        "question": [f"What is {n} times {n}?" for n in numbers],
        "answer": [str(n) for n in numbers],
        "target": [str(n * n) for n in numbers],
        "flags": [0] * N_MANY,
    }
    facts = {
        "model_name": "many", "gates": [], "listed": [], "parts": {}, "special": [],
        "begins": "", "made": {}, "comparison": None, "history": {},
    }  # fmt: skip
    chunk = packed([whole] * size)
    path = tmp_path_factory.mktemp("many") / "report.html"
    index = {"tasks": [task], "beside": ""}
    path.write_text(page_html(facts, index, [chunk] * len(task["sizes"])))
    return path


def test_very_many_documents_stay_fluid(tab, many):
    page = tab.open(many, "#/documents")
    assert "100,000 documents" in page.locator(".told").inner_text()
    assert page.locator(".doc").count() < 60
    # The machine may be busy: a list of fewer documents is the reference.
    page.get_by_label("search documents").fill("m99")
    sync_api.expect(page.locator(".told")).to_have_text("1,111 documents")
    few_ms = page.evaluate(MILLISECONDS)
    page.get_by_label("search documents").fill("")
    sync_api.expect(page.locator(".told")).to_have_text("100,000 documents")
    assert page.evaluate(MILLISECONDS) < 3 * few_ms + 20
    sync_api.expect(page.locator(".doc .id").last).to_have_text(f"m{N_MANY - 1}")
    assert page.locator(".doc").count() < 60
    page.get_by_role("button", name="wrong").click()
    assert "33,334 documents" in page.locator(".told").inner_text()
    page.get_by_label("sort").select_option("high")
    assert tab.rows()[0] == "m999"
    page.get_by_label("search documents").fill("99997 times")
    sync_api.expect(page.locator(".told")).to_have_text("0 documents")
    page.get_by_role("button", name="all").click()
    sync_api.expect(page.locator(".told")).to_have_text("1 document")


def test_a_link_leads_to_a_document_far_down(tab, many):
    page = tab.open(many, "#/documents?doc=many/77777")
    row = page.locator(".doc[aria-selected=true]")
    sync_api.expect(row).to_be_in_viewport()
    assert row.get_attribute("aria-posinset") == "77778"


def test_paper_gets_the_list_where_no_document_is_open(tab, many):
    page = tab.open(many, "#/documents?show=wrong")
    page.wait_for_selector(".doc")
    page.emulate_media(media="print")
    try:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        rows = page.locator(".doc")
        assert rows.count() == 2000
        assert rows.nth(1999).is_visible()
        tops = [rows.nth(n).bounding_box()["y"] for n in (0, 1, 1999)]
        assert tops[0] < tops[1] < tops[2]
        assert page.locator(".told").inner_text() == "33,334 documents"
        assert page.locator(".on-paper").all_inner_texts() == [
            "many · all tasks · wrong",
            "and 31,334 more",
        ]
        # A list of its own size would be clipped to nothing in a PDF.
        end = rows.nth(1999).bounding_box()
        listed = page.locator(".list").bounding_box()
        assert listed["y"] + listed["height"] >= end["y"] + end["height"]
        assert not page.locator(".tools").is_visible()
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert rows.count() < 200
    finally:
        page.emulate_media(media="screen")


def test_rows_in_separate_files_are_loaded_on_demand(tab, write, tmp_path):
    rows = [write.generated(n, f"{n}?", f"answer {n}") for n in range(600)]
    run = write.run(tmp_path / "run", {"quiz": rows})
    path = tmp_path / "with blank & ünïcode.html"
    write_html(run, path, largest=1000)
    page = tab.open(path, "#/documents?doc=quiz/599")
    sync_api.expect(page.locator(".document pre").first).to_have_text("answer 599")
    loaded = [url for url in tab.requests if url.endswith(".js")]
    assert [url.rpartition("-")[2] for url in loaded] == ["2.js"]


def test_a_page_without_its_folder_of_rows_shows_an_error(shared, write, tmp_path):
    rows = [write.generated(n, f"{n}?", "x") for n in range(300)]
    run = write.run(tmp_path / "run", {"quiz": rows})
    write_html(run, tmp_path / "report.html", largest=1000)
    shutil.rmtree(tmp_path / "report_rows")
    page = shared.open(tmp_path / "report.html", "#/documents?doc=quiz/1")
    sync_api.expect(page.locator(".pane")).to_contain_text(
        "keep this folder next to the page"
    )
    assert all("ERR_FILE_NOT_FOUND" in fault for fault in shared.faults)
