"""The page in use: gates, documents, two runs."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from pytest_evals.reports.html.other_runs import OtherRuns
from pytest_evals.reports.html.write import write_html
from pytest_evals.run.comparison import changes

sync_api = pytest.importorskip("playwright.sync_api")


def test_it_opens_on_the_gate_that_failed(tab, story):
    page = tab.open(story)
    assert page.locator("h1").inner_text() == "1 failed, 1 inconclusive of 3 gates"
    lines = page.locator(".gate")
    assert [gate.get_attribute("open") for gate in lines.all()] == ["", None, None]
    first = lines.first
    assert "exact_match ≥ 0.75" in first.locator("summary").inner_text()
    assert "about 125 documents would settle it" in first.inner_text()
    assert first.locator("svg[role=img]").get_attribute("aria-label") == (
        "0.700, threshold >= 0.75, 90% CI 0.500 to 0.900"
    )


def test_gates_are_drawn_to_one_scale(tab, write, tmp_path):
    """Equal values are drawn at the same position, for any threshold."""
    interval = {"low": 0.6, "high": 0.8, "method": "Wilson", "confidence": 0.975}
    bounds = [{"op": ">=", "value": 0.2}]
    change = {
        "baseline": "main", "before": 0.5, "now": 0.7, "difference": -0.02, "op": ">=",
        "bar": -0.03, "unit": "points", "n": 9, "gained": 1, "lost": 2,
    }  # fmt: skip
    gates = [
        write.gate("quiz", "failed", id="a", interval=interval),
        write.gate("quiz", "passed", id="b", interval=interval, bounds=bounds),
        write.gate("quiz", "passed", id="c", change=change),
    ]
    run = write.run(
        tmp_path / "run", {"quiz": [write.generated(0, "p", "x")]}, gates=gates
    )
    write_html(run, tmp_path / "report.html")
    page = tab.open(tmp_path / "report.html", "#/gates")
    titles = page.locator("main h2").all_inner_texts()
    assert titles == ["Values from 0 to 1", "Changes in points"]
    values = page.locator("section", has_text="Values from 0 to 1")
    sync_api.expect(values.locator(".gate svg")).to_have_count(2)
    ends = values.locator(".gate line.error").evaluate_all(
        "lines => lines.map(one => one.getAttribute('x1'))"
    )
    assert len(ends) == 6 and ends[:3] == ends[3:]
    shown = values.locator("summary").first.inner_text()
    assert "95% CI 0.600 to 0.800" in shown  # both one-sided limits at 97.5%
    page.locator("summary", has_text="vs main").click()
    sync_api.expect(page.locator(".gate[open]")).to_have_count(2)


def test_a_gate_of_a_group_leads_to_the_documents_of_its_tasks(tab, story):
    page = tab.open(story, "#/gates")
    page.locator("summary", has_text="inconclusive").click()
    page.get_by_role("link", name="wrong documents of all").click()
    page.wait_for_selector(".doc")
    assert tab.rows()[:3] == ["quiz[d0]", "quiz[d1]", "quiz[d4]"]
    assert {row.split("[")[0] for row in tab.rows()} == {"quiz", "capitals"}
    assert page.get_by_label("task").input_value() == "all"


def test_a_gate_on_a_second_metric_leads_to_the_documents_that_it_rates_worst(
    tab, write, tmp_path
):
    rows = [
        write.generated(i, f"q{i}", "x", metrics=["exact_match", "short"], short=value)
        for i, value in enumerate([0.9, 0.1, 0.5])
    ]
    results = {"quiz": {"exact_match,none": 1.0, "short,none": 0.5}}
    gates = [write.gate("quiz", "failed", metric="short", claim="short >= 0.75")]
    run = write.run(tmp_path / "run", {"quiz": rows}, gates=gates, results=results)
    write_html(run, tmp_path / "report.html")
    page = tab.open(tmp_path / "report.html", "#/gates")
    page.get_by_role("link", name="documents of quiz by short, the lowest").click()
    sync_api.expect(page.locator(".head", has_text="short")).to_be_visible()
    assert tab.rows() == ["d1", "d2", "d0"]


def test_ratings_of_a_judge_and_of_people_are_a_table(tab, write, tmp_path):
    table = {"pass": {"pass": 23, "fail": 6}, "fail": {"pass": 5, "fail": 16}}
    texts = ["polite: judge's mean 0.647", "polite: agreement 0.780; human pass: 23"]
    error = {"metric": "polite,none", "text": texts, "confusion": table}
    rows = {"quiz": [write.generated(0, "p", "x")]}
    run = write.run(tmp_path / "run", rows, judge_errors={"quiz": [error]})
    write_html(run, tmp_path / "report.html")
    page = tab.open(tmp_path / "report.html", "#/task?name=quiz")
    shown = page.locator(".confusion tr").all_inner_texts()
    assert [row.split("\t") for row in shown] == [
        ["", "judge: pass", "judge: fail"],
        ["human: pass", "23", "6"],
        ["human: fail", "5", "16"],
    ]
    assert page.locator(".judge p").all_inner_texts() == [
        "judge's mean 0.647",
        "agreement 0.780",
    ]


def test_names_of_models_and_libraries_are_unchanged(tab, write, tmp_path):
    rows = {"quiz": [write.generated(0, "p", "x")]}
    made = {"judges": {"python:my_app:rate": {"version": "1"}}}
    run = write.run(tmp_path / "run", rows, options={"bootstrap_iters": 9}, **made)
    write_html(run, tmp_path / "report.html")
    page = tab.open(tmp_path / "report.html", "#/run")
    names = page.locator("section dt").all_inner_texts()
    assert names == ["python:my_app:rate", "bootstrap resamples"]


def test_warnings_of_the_run_are_text(tab, story):
    page = tab.open(story, "#/summary")
    shown = page.locator("details.notices").inner_text()
    assert shown.splitlines()[0] == "2 warnings"
    assert "<img src=x onerror=" in shown


def test_without_a_failed_gate_it_opens_on_the_summary(tab, write, tmp_path):
    run = write.run(tmp_path / "run", {"quiz": [write.generated(0, "p", "x")]})
    write_html(run, tmp_path / "report.html")
    page = tab.open(tmp_path / "report.html")
    assert page.locator("h1").inner_text().endswith("No gates")
    assert "0.700 ± 0.100" in page.locator("table.tasks").inner_text()


def test_documents_are_filtered_sorted_and_counted(tab, story):
    page = tab.open(story, "#/documents?task=quiz")
    assert tab.rows() == ["d0", "d1", "d2", "d3", "d4"]
    shown = " ".join(page.locator(".shows").inner_text().split())
    assert shown == (
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


def test_search_finds_text_that_is_not_shown(tab, story):
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
    heading = page.locator(".document h2")
    sync_api.expect(heading).to_have_text("d0")
    page.keyboard.press("j")
    sync_api.expect(heading).to_have_text("d1")
    rows = page.locator("table.choices tr")
    assert [row.split() for row in rows.all_inner_texts()] == [
        ["★", "most", "probable", "Rome", "\u22121.500", "92.4%", "greedy"],
        ["◎", "correct", "choice", "Oslo", "\u22124.000", "7.6%"],
    ]
    page.keyboard.press("c")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "evals/capitals.yaml::capitals[d1]"
    page.keyboard.press("k")
    sync_api.expect(heading).to_have_text("d0")
    page.keyboard.press("Escape")
    sync_api.expect(heading).to_be_hidden()
    page.keyboard.press("Escape")
    sync_api.expect(heading).to_be_visible()
    page.keyboard.press("?")
    assert page.locator("dialog[open]").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    sync_api.expect(page.locator("nav [aria-current]")).to_have_text("Summary")


def test_an_error_is_shown_with_its_reason_and_not_as_an_answer(tab, story):
    page = tab.open(story, "#/documents?doc=quiz/3")
    sync_api.expect(page.locator(".document .marks")).to_contain_text("errored")
    assert "server is down" in page.locator(".document .trouble").inner_text()


def test_words_of_a_judge_are_shown(tab, story):
    page = tab.open(story, "#/documents?doc=quiz/2")
    sync_api.expect(page.locator(".document .said")).to_have_text("it is to the point")
    later = page.locator("section", has_text="Follow-up requests")
    assert later.locator("h4").all_inner_texts() == ["to judge", "user", "response"]
    assert later.locator("pre").all_inner_texts() == ["Rate: right", "Rating: 5"]


def test_two_runs_are_shown_side_by_side_with_the_words_that_differ(tab, story):
    page = tab.open(story, "#/changes")
    assert "1 regressed" in page.locator(".legend").inner_text()
    turn = page.locator(".flip", has_text="d1")
    was, now = "the dog sat on a mat", "the cat sat on the mat"
    assert f"{was} → {now}" in turn.inner_text()
    turn.click()
    pair = page.locator(".pair")
    sync_api.expect(pair).to_be_visible()
    assert pair.locator("h4").all_inner_texts() == [
        "main: ✓correct",
        "this run: ✕wrong",
    ]
    assert pair.locator("pre").all_inner_texts() == [
        "the dog sat on a mat",
        "the cat sat on the mat",
    ]
    assert pair.locator("pre del").all_inner_texts() == ["dog", "a"]
    assert pair.locator("pre ins").all_inner_texts() == ["cat", "the"]


def test_extracted_answers_of_a_baseline_are_compared_with_those_of_the_run(
    tab, write, tmp_path
):
    """A baseline has no texts; in a comparison, all of a text would be new."""
    rows = [write.generated(0, "1 + 1?", "It is 2") | {"answer": "2"}]
    kept = [{k: v for k, v in row.items() if k != "resps"} for row in rows]
    now, before = (
        write.run(tmp_path / name, {"quiz": some})
        for name, some in {"now": rows, "before": kept}.items()
    )
    found = asdict(changes("main", before, now))
    write_html(now, tmp_path / "report.html", others=OtherRuns(before, found))
    page = tab.open(tmp_path / "report.html", "#/documents?doc=quiz/0")
    compared = page.locator("section", has_text="Compared with main")
    sync_api.expect(compared).to_contain_text("The same answer")


def test_prompts_that_differ_from_the_baseline_are_shown_as_a_word_diff(
    tab, write, tmp_path
):
    runs = [
        write.run(tmp_path / name, {"quiz": [write.generated(0, prompt, "a")]})
        for name, prompt in (("before", "the <b>sum</b> of"), ("now", "the total of"))
    ]
    found = asdict(changes("main", *runs))
    write_html(runs[1], tmp_path / "report.html", others=OtherRuns(runs[0], found))
    page = tab.open(tmp_path / "report.html", "#/changes")
    diff = page.locator("details", has_text="Why the runs may differ").locator("ul ul")
    assert diff.all_inner_texts() == ["quiz[d0]: the <b>sum</b>total of"]
    assert diff.locator("del").all_inner_texts() == ["<b>sum</b>"]
    assert diff.locator("ins").all_inner_texts() == ["total"]


def test_notes_stand_on_one_page_each(tab, write, tmp_path):
    rows = {"quiz": [write.generated(0, "p", "x")]}
    before = write.run(tmp_path / "before", rows)
    now = write.run(tmp_path / "now", rows, warnings=["hot"])
    found = asdict(changes("main", before, now)) | {"warnings": ["other rows"]}
    write_html(now, tmp_path / "report.html", others=OtherRuns(before, found))
    page = tab.open(tmp_path / "report.html", "#/summary")
    summary = page.locator("main").inner_text()
    assert "hot" in summary and "other rows" not in summary
    page.get_by_text("1 note on the comparison with main").click()
    changed = page.locator("main").inner_text()
    assert "other rows" in changed and "hot" not in changed


def test_where_scripts_are_forbidden_there_is_a_table(browser, story):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(story.as_uri())
    assert "exact_match,none" in page.locator("body").inner_text()
    assert page.locator("td", has_text="failed").is_visible()
    assert "warning: capitals: its targets are odd" in page.locator("body").inner_text()
    context.close()


def test_each_change_shows_its_interval_or_the_reason_why_it_is_missing(
    tab, write, tmp_path
):
    change = {"task": "quiz", "before": 10.0, "now": 10.2, "higher_is_better": False}
    found = {
        "name": "main",
        "n_paired": 2,
        "metrics": [
            {**change, "key": "ppl,none", "low": 0.01, "high": 0.03, "unit": "percent"},
            {**change, "key": "ter,none", "no_interval": "needs 30 documents, not 2"},
        ],
    }
    path = tmp_path / "report.html"
    run = write.run(tmp_path / "now", {"quiz": [write.generated(0, "1 + 1?", "2")]})
    write_html(run, path, others=OtherRuns(None, found))
    page = tab.open(path, "#/changes")
    rows = page.locator("table.changes tbody tr")
    sync_api.expect(rows.first).to_contain_text("+2.00 % worse 90% CI +1.00 % to")
    sync_api.expect(rows.last).to_contain_text("no CI: needs 30 documents, not 2")
