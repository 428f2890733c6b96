"""The page as people use it: gates, documents, two runs."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from pytest_evals.reports.html.write import write_html
from pytest_evals.run.comparison import changes

sync_api = pytest.importorskip("playwright.sync_api")


def test_it_opens_on_the_gate_that_failed(tab, story):
    page = tab.open(story)
    assert page.locator("h1").inner_text() == "1 failed, 1 inconclusive of 3 gates"
    first = page.locator(".gate").first
    assert "exact_match >= 0.75" in first.inner_text()
    assert "about 125 documents would settle it" in first.inner_text()
    assert first.locator("svg[role=img]").get_attribute("aria-label") == (
        "0.700, bar >= 0.750"
    )


def test_a_gate_of_a_group_leads_to_the_documents_of_its_tasks(tab, story):
    page = tab.open(story, "#/gates")
    page.get_by_role("link", name="look at the wrong documents of all").click()
    page.wait_for_selector(".doc")
    assert tab.rows()[:3] == ["quiz[d0]", "quiz[d1]", "quiz[d4]"]
    assert {row.split("[")[0] for row in tab.rows()} == {"quiz", "capitals"}
    assert page.get_by_label("task").input_value() == "all"


def test_warnings_of_the_run_are_text(tab, story):
    page = tab.open(story, "#/summary")
    shown = page.locator("details.notices").inner_text()
    assert shown.splitlines()[0] == "2 warnings"
    assert "<img src=x onerror=" in shown


def test_without_a_red_gate_it_opens_on_the_summary(tab, write, tmp_path):
    run = write.run(tmp_path / "run", {"quiz": [write.generated(0, "p", "x")]})
    write_html(run, tmp_path / "report.html")
    page = tab.open(tmp_path / "report.html")
    assert page.locator("h1").inner_text().endswith("No gates")
    assert "0.700 ± 0.100" in page.locator("table.tasks").inner_text()


def test_documents_are_filtered_sorted_and_counted(tab, story):
    page = tab.open(story, "#/documents?task=quiz")
    assert tab.rows() == ["d0", "d1", "d2", "d3", "d4"]
    told = " ".join(page.locator(".shows").inner_text().split())
    assert told == (
        "all 5 wrong 3 regressed 1 improved 1 errored 1 truncated 1 correct 1"
    )
    for show, ids in {
        "wrong": ["d0", "d1", "d4"],
        "regressed": ["d1"],
        "improved": ["d2"],
        "errored": ["d3"],
        "truncated": ["d4"],
    }.items():
        page.get_by_role("button", name=show).click()
        assert tab.rows() == ids, show
    page.get_by_role("button", name="all").click()
    page.get_by_label("sort").select_option("high")
    assert tab.rows()[0] == "d2"
    page.get_by_label("sort").select_option("low")
    assert tab.rows()[:2] == ["d0", "d1"]


def test_search_finds_what_no_line_shows(tab, story):
    page = tab.open(story, "#/documents")
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE stands")
    sync_api.expect(page.locator(".told")).to_have_text("1 document")
    assert tab.rows() == ["quiz[d0]"]
    page.get_by_label("search documents").fill("no such text")
    sync_api.expect(page.locator(".told")).to_have_text("0 documents")
    page.get_by_label("search documents").fill("")
    sync_api.expect(page.locator(".doc").first).to_be_visible()


def test_a_document_is_read_by_keyboard(tab, story):
    page = tab.open(story, "#/documents?task=capitals")
    page.keyboard.press("j")
    page.keyboard.press("j")
    heading = page.locator(".document h2")
    sync_api.expect(heading).to_have_text("d1")
    rows = page.locator("table.choices tr")
    assert [row.split() for row in rows.all_inner_texts()] == [
        ["★", "Rome", "\u22121.500", "greedy"],
        ["◎", "Oslo", "\u22124.000"],
    ]
    page.keyboard.press("c")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "evals/capitals.yaml::capitals[d1]"
    page.keyboard.press("k")
    sync_api.expect(heading).to_have_text("d0")
    page.keyboard.press("Escape")
    sync_api.expect(heading).to_have_count(0)
    page.keyboard.press("?")
    assert page.locator("dialog[open]").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    sync_api.expect(page.locator("nav [aria-current]")).to_have_text("Summary")


def test_an_error_says_why_and_is_no_answer(tab, story):
    page = tab.open(story, "#/documents?doc=quiz/3")
    sync_api.expect(page.locator(".document .marks")).to_contain_text("errored")
    assert "server is down" in page.locator(".document .trouble").inner_text()


def test_words_of_a_judge_are_shown(tab, story):
    page = tab.open(story, "#/documents?doc=quiz/2")
    sync_api.expect(page.locator(".document .said")).to_have_text("it is to the point")
    later = page.locator("section", has_text="Follow-up requests")
    assert later.locator("h4").all_inner_texts() == ["to judge", "user", "response"]
    assert later.locator("pre").all_inner_texts() == ["Rate: right", "Rating: 5"]


def test_two_runs_stand_side_by_side_with_the_words_that_differ(tab, story):
    page = tab.open(story, "#/changes")
    assert "1 regressed" in page.locator(".legend").inner_text()
    page.get_by_text("quiz · d1").click()
    pair = page.locator(".pair")
    sync_api.expect(pair).to_be_visible()
    assert pair.locator("h4").all_inner_texts() == ["main: correct", "this run: wrong"]
    assert pair.locator("pre").all_inner_texts() == [
        "the dog sat on a mat",
        "the cat sat on the mat",
    ]
    assert pair.locator("del").all_inner_texts() == ["dog", "a"]
    assert pair.locator("ins").all_inner_texts() == ["cat", "the"]


def test_what_a_baseline_has_read_is_compared_with_what_was_read_now(
    tab, write, tmp_path
):
    """A baseline keeps no texts; beside one, all of a text would be new."""
    rows = [write.generated(0, "1 + 1?", "It is 2") | {"answer": "2"}]
    kept = [{k: v for k, v in row.items() if k != "resps"} for row in rows]
    now, before = (
        write.run(tmp_path / name, {"quiz": some})
        for name, some in {"now": rows, "before": kept}.items()
    )
    found = asdict(changes("main", before, now))
    write_html(now, tmp_path / "report.html", before=before, comparison=found)
    page = tab.open(tmp_path / "report.html", "#/documents?doc=quiz/0")
    beside = page.locator("section", has_text="Beside main")
    sync_api.expect(beside).to_contain_text("The same answer")


def test_where_scripts_are_forbidden_there_is_a_table(browser, story):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(story.as_uri())
    assert "exact_match,none" in page.locator("body").inner_text()
    assert page.locator("td", has_text="failed").is_visible()
    assert "warning: capitals: its targets are odd" in page.locator("body").inner_text()
    context.close()
