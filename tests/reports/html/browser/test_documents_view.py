"""The list of documents: columns, runs next to each other, filters in the address."""

from __future__ import annotations

import pytest

from pytest_evals.reports.html.other_runs import OtherRuns
from pytest_evals.reports.html.write import write_html

sync_api = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def runs(write, tmp_path_factory):
    """Four documents of two subjects in three runs, each with one more correct
    answer."""
    base = tmp_path_factory.mktemp("runs")
    stored = []
    for n in range(3):
        rows = [
            write.generated(
                i,
                f"Question {i}?",
                f"answer {n}" if i <= n else "no",
                correct=i <= n,
                doc={"subject": ["law", "art: old, new"][i % 2]},
                tokens={"prompt": 5 + i, "answer": 9 - i, "truncated": 0},
            )
            for i in range(4)
        ]
        folder, model = base / f"{n}", f"model-{n}"
        stored.append(write.run(folder, {"quiz": rows}, model_name=model, date=1e9 + n))
    path = base / "report.html"
    write_html(stored[2], path, others=OtherRuns(runs=stored[:2]))
    return path


def heads(page):
    return page.locator(".head").all_inner_texts()


def test_runs_are_columns_next_to_target_and_answer(tab, runs):
    page = tab.open(runs, "#/documents")
    sync_api.expect(page.locator(".document h2")).to_have_text("d0")  # the first one
    assert heads(page)[:4] == ["id", "question", "target", "answer"]
    assert [name.split()[0] for name in heads(page)[4:]] == ["model-0", "model-1"]
    signs = page.locator(".doc .run .sign").all_inner_texts()
    assert signs == ["✓", "✓", "✕", "✓", "✕", "✕", "✕", "✕"]
    page.get_by_role("button", name="runs differ").click()
    assert tab.rows() == ["d1", "d2"]
    table = page.locator("table.in-runs tr")
    sync_api.expect(table).to_have_count(3)
    assert "wrong" in table.first.inner_text() and "no" in table.first.inner_text()


def test_the_end_of_a_long_id_is_visible(tab, write, tmp_path):
    ids = [f"gsm-like/arithmetic-with-long-identifiers/{n:05d}" for n in range(3)]
    rows = [
        write.generated(n, "p", "x" * 90, id=one, target="y" * 90)
        for n, one in enumerate(ids)
    ]
    run = write.run(tmp_path / "run", {"quiz": rows})
    write_html(run, tmp_path / "report.html")
    page = tab.open(tmp_path / "report.html", "#/documents")
    cells = page.locator(".doc .id")
    ends = cells.locator(".tail")
    assert ends.all_inner_texts() == ["rs/00000", "rs/00001", "rs/00002"]
    assert [cell.get_attribute("title") for cell in cells.all()] == ids
    cell, end = cells.first.bounding_box(), ends.first.bounding_box()
    assert end["x"] + end["width"] <= cell["x"] + cell["width"] + 1


def test_without_a_document_the_list_has_the_whole_width(tab, runs):
    page = tab.open(runs, "#/documents")
    sync_api.expect(page.locator(".document h2")).to_be_visible()
    page.keyboard.press("Escape")
    sync_api.expect(page.locator(".pane")).to_be_hidden()
    assert page.locator(".list").bounding_box()["width"] > 1200
    page.keyboard.press("j")
    sync_api.expect(page.locator(".document h2")).to_be_visible()


def test_columns_are_chosen_sorted_by_and_kept_in_the_address(tab, runs):
    page = tab.open(runs, "#/documents")
    page.get_by_text("columns", exact=True).click()
    page.get_by_label("answer tokens").check()
    page.get_by_label("subject").check()
    page.get_by_label("question").uncheck()
    assert {"answer tokens", "subject"} <= {*heads(page)}
    assert "question" not in heads(page)
    page.get_by_text("columns", exact=True).click()
    page.get_by_role("button", name="answer tokens").click()
    assert tab.rows() == ["d3", "d2", "d1", "d0"]
    page.get_by_role("button", name="answer tokens").click()
    assert tab.rows() == ["d0", "d1", "d2", "d3"]
    address = page.evaluate("location.hash")
    columns = heads(page)
    tab.open(runs, address)
    assert heads(page) == columns


def test_counts_follow_the_search(tab, runs):
    page = tab.open(runs, "#/documents?q=answer")
    shows = page.locator(".shows")
    sync_api.expect(shows).to_have_text("all 3runs differ 2correct 3")
    page.get_by_label("search documents").fill("question 3")
    sync_api.expect(shows).to_have_text("all 1wrong 1")
    assert tab.rows() == ["d3"]
    sync_api.expect(page.locator(".document h2")).to_have_text("d3")


def test_a_slice_of_the_data_is_a_filter(tab, runs):
    page = tab.open(runs, "#/task?name=quiz")
    page.get_by_label("slice by").select_option(label="subject")
    page.get_by_role("link", name="art: old, new").click()
    sync_api.expect(page.locator(".told")).to_have_text("2 documents")
    assert tab.rows() == ["d1", "d3"]
    page.get_by_role("button", name="remove filter").click()
    assert len(tab.rows()) == 4


def test_a_phone_shows_the_list_first(tab, runs):
    page = tab.page
    page.set_viewport_size({"width": 375, "height": 800})
    try:
        tab.open(runs, "#/documents")
        sync_api.expect(page.locator(".doc").first).to_be_visible()
        assert not page.locator(".document").is_visible()
        page.locator(".doc").first.click()
        sync_api.expect(page.locator(".document h2")).to_have_text("d0")
        page.get_by_role("link", name="all documents").click()
        sync_api.expect(page.locator(".doc").first).to_be_visible()
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})


def test_emoji_of_several_characters_stay_together_in_a_comparison(
    tab, write, tmp_path
):
    family, other = "👨\u200d👩\u200d👧", "👨\u200d👩\u200d👦"
    rows = [write.generated(0, "p", f"a {family} 👍🏽 né", correct=False)]
    old = [write.generated(0, "p", f"a {other} 👍🏿 nè", correct=True)]
    now, before = (
        write.run(tmp_path / name, {"quiz": some})
        for name, some in (("now", rows), ("before", old))
    )
    comparison = {"name": "main", "n_paired": 1, "metrics": [{"task": "quiz"}]}
    page_path = tmp_path / "report.html"
    write_html(now, page_path, others=OtherRuns(before, comparison, ()))
    page = tab.open(page_path, "#/documents?doc=quiz/0")
    pair = page.locator(".pair pre")
    sync_api.expect(pair.first).to_be_visible()
    assert pair.locator("del").all_inner_texts() == [other, "👍🏿", "nè"]
    assert pair.locator("ins").all_inner_texts() == [family, "👍🏽", "né"]
