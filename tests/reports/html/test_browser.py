"""The page as people use it, in a real browser without a window.

The browser is Debian's Chromium, or the one that Playwright has installed; without one
these tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from pytest_evals.reports.html.chunks import packed
from pytest_evals.reports.html.page import page_html
from pytest_evals.reports.html.write import write_html

sync_api = pytest.importorskip("playwright.sync_api")

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
HOSTILE = {
    "script": "</script><script>document.title = 'taken'</script>",
    "handler": "<img src=x onerror=\"document.title = 'taken'\">",
    "comment": "<!-- --!> ]]> <![CDATA[ &amp; &#x3C;",
    "lines": "one\u2028two\u2029three\r\nfour",
    "backwards": "\u202etxet sdrawkcab\u202c \u2066isolated",
    "nothing": "zero\x00 bell\x07 escape\x1b[31m",
    "surrogate": "lone \ud800 half",
    "quotes": "\"'`${1+1}` \\u003cb\\u003e",
    "emoji": "👩‍👩‍👧 مرحبا",
}
N_MANY = 100_000
PATIENCE_MS = 30_000
sync_api.expect.set_options(timeout=PATIENCE_MS)
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
"""How long it usually takes until rows are drawn after the list was moved."""


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_api.sync_playwright() as playwright:
        if found is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("there is no Chromium: playwright install chromium")
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        started = playwright.chromium.launch(
            executable_path=found, chromium_sandbox=not is_root
        )
        yield started
        started.close()


class Tab:
    """A page of the browser that minds what goes wrong."""

    def __init__(self, browser, **settings):
        settings = {"viewport": {"width": 1280, "height": 800}} | settings
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: self.faults.append(dialog.message))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def open(self, path, address=""):
        self.page.goto("about:blank")
        self.page.goto(f"{path.as_uri()}{address}")
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def rows(self):
        return self.page.locator(".doc .id").all_inner_texts()


@pytest.fixture(scope="module")
def shared(browser):
    tab = Tab(browser, permissions=["clipboard-read", "clipboard-write"])
    yield tab
    tab.context.close()


@pytest.fixture
def tab(shared):
    """A tab in which nothing goes wrong, and which asks for files only."""
    shared.faults.clear()
    shared.asked.clear()
    yield shared
    assert shared.faults == []
    assert {url.partition(":")[0] for url in shared.asked} <= {"file", "about"}


@pytest.fixture(scope="module")
def story(write, tmp_path_factory):
    """A run with a failed gate, beside a baseline, with hostile documents."""
    base = tmp_path_factory.mktemp("story") / ".evals" / "runs"
    secret = "The needle stands " + "far " * 200 + "in front. Question?"
    asked = [{"role": "user", "content": "Rate: right"}]
    judged = {
        "turns": [
            {
                "model": "judge",
                "arguments": {"arg_0": asked, "arg_1": {"until": []}},
                "resp": "Rating: 5",
                "error": "",
                "finish": "stop",
            }
        ],
        "explanations": {"exact_match": "it is to the point"},
    }
    quiz = [
        write.generated(0, secret, "first answer", correct=False),
        write.generated(1, "Second?", "the cat sat on the mat", correct=False),
        write.generated(2, "Third?", "right", correct=True, **judged),
        write.generated(
            3, "Fourth?", "", correct=None, status="errored", error="server is down"
        ),
        write.generated(4, "Fifth?", "too lo", correct=False, finish=["length"]),
    ]
    hostile = [
        write.generated(n, text, text, id=name, doc={"text": text}, error=text)
        for n, (name, text) in enumerate(HOSTILE.items())
    ]
    huge = "x" * 300_000
    hostile.append(write.generated(len(hostile), huge, huge, id="huge"))
    capitals = [
        write.chosen(n, f"Capital {n}?", {" Rome": -1.5, " Oslo": -4.0}, n % 2)
        for n in range(6)
    ]
    before = [dict(row) for row in quiz]
    before[1] |= {"resps": [["the dog sat on a mat"]], "correct": True}
    before[2] |= {"correct": False}
    tasks = {"quiz": quiz, "hostile": hostile, "capitals": capitals}
    baseline = write.run(base / "a", tasks | {"quiz": before}, date=1788516000.0)
    gates = [
        write.gate("all", "inconclusive", claim="all/exact_match >= 0.9"),
        write.gate("quiz", "passed", claim="exact_match >= 0.1", id="low"),
        write.gate(
            "quiz",
            "failed",
            notes=["about 125 documents would settle it"],
            interval={
                "low": 0.5,
                "high": 0.9,
                "method": "Wilson",
                "confidence": 0.95,
                "policy": "warn",
            },
        ),
    ]
    results = {name: {"alias": name, "exact_match,none": 0.7} for name in tasks}
    run = write.run(
        base / "b",
        tasks,
        gates=gates,
        results={**results, "all": {"alias": "all", "exact_match,none": 0.7}},
        group_subtasks={"all": ["quiz", "capitals"]},
        warnings=[HOSTILE["handler"], "capitals: its targets are odd"],
    )
    path = base.parent / "report.html"
    write_html(run, path, before=baseline, name="main")
    return path


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
    assert HOSTILE["handler"] in shown


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
        "all 5 wrong 3 regressed 1 improved 1 errored 1 truncated 1 right 1"
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
    later = page.locator("section", has_text="Asked later")
    assert later.locator("h4").all_inner_texts() == ["of judge", "user", "reply"]
    assert later.locator("pre").all_inner_texts() == ["Rate: right", "Rating: 5"]


def test_two_runs_stand_side_by_side_with_the_words_that_differ(tab, story):
    page = tab.open(story, "#/changes")
    assert "1 regressed" in page.locator(".legend").inner_text()
    page.get_by_text("quiz · d1").click()
    pair = page.locator(".pair")
    sync_api.expect(pair).to_be_visible()
    assert pair.locator("h4").all_inner_texts() == ["main: right", "this run: wrong"]
    assert pair.locator("pre").all_inner_texts() == [
        "the dog sat on a mat",
        "the cat sat on the mat",
    ]
    assert pair.locator("del").all_inner_texts() == ["dog", "a"]
    assert pair.locator("ins").all_inner_texts() == ["cat", "the"]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_model_wrote_is_text(tab, story, name):
    """Signs without a shape are shown by their numbers; all else is as it was."""
    at = list(HOSTILE).index(name)
    page = tab.open(story, f"#/documents?doc=hostile/{at}")
    sync_api.expect(page.locator(".document h2")).to_have_text(name)
    shown = page.locator(".document pre.text").evaluate_all(
        "all => all.map(one => one.textContent)"
    )
    # UTF-8 has no word for half a character: the report has its escape.
    wanted = HOSTILE[name].encode("utf-8", "backslashreplace").decode()
    signs = r"[\x00-\x08\x0b\x0c\x0e-\x1f\u2028-\u202e\u2060-\u206f]"
    wanted = re.sub(signs, lambda sign: f"U+{ord(sign[0]):04X}", wanted)
    assert wanted.replace("\r\n", "\n") in [
        text.replace("\r\n", "\n") for text in shown
    ]
    assert page.title() == "acme/llm-8b · evals"
    assert page.locator("#app script, #app img").count() == 0


def test_a_huge_line_is_shown_in_part_until_all_is_wanted(tab, story):
    page = tab.open(story, f"#/documents?doc=hostile/{len(HOSTILE)}")
    first = page.locator(".document pre.text").first
    sync_api.expect(first).to_be_visible()
    assert len(first.text_content()) < 30_000
    assert page.get_by_text("show all 300,000 characters").first.is_visible()


def test_all_views_fit_a_phone(tab, story):
    views = ["summary", "gates", "task?name=quiz", "changes", "run"]
    views += ["documents", "documents?doc=hostile/4", "documents?doc=quiz/1"]
    page = tab.page
    page.set_viewport_size({"width": 360, "height": 740})
    try:
        for view in views:
            tab.open(story, f"#/{view}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, view
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})


def test_paper_gets_the_document_and_nothing_to_press(tab, story):
    page = tab.open(story, "#/documents?doc=quiz/1")
    sync_api.expect(page.locator(".document")).to_be_visible()
    page.emulate_media(media="print")
    try:
        assert page.locator(".document").is_visible()
        for part in (".top", ".finder", ".document button"):
            assert not page.locator(part).first.is_visible(), part
    finally:
        page.emulate_media(media="screen")


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
        assert page.locator(".on-paper").inner_text() == "and 31,334 more"
        assert not page.locator(".tools").is_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert rows.count() < 200
    finally:
        page.emulate_media(media="screen")


def test_where_scripts_are_forbidden_there_is_a_table(browser, story):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(story.as_uri())
    assert "exact_match,none" in page.locator("body").inner_text()
    assert page.locator("td", has_text="failed").is_visible()
    assert "warning: capitals: its targets are odd" in page.locator("body").inner_text()
    context.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A page of very many documents, whose rows are all alike."""
    size = 500
    whole = {
        "id": "any", "doc_id": 0, "status": "scored", "error": "", "correct": True,
        "prompts": [[{"title": "", "text": "any question"}]], "asked": [],
        "answers": [["yes"]], "finish": [], "turns": [], "tokens": {}, "target": "yes",
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
    # The machine may do other things too: a list of fewer documents is the measure.
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


def test_rows_beside_the_page_come_when_they_are_wanted(tab, write, tmp_path):
    rows = [write.generated(n, f"{n}?", f"answer {n}") for n in range(600)]
    run = write.run(tmp_path / "run", {"quiz": rows})
    path = tmp_path / "with blank & ünïcode.html"
    write_html(run, path, largest=1000)
    page = tab.open(path, "#/documents?doc=quiz/599")
    sync_api.expect(page.locator(".document pre").first).to_have_text("answer 599")
    loaded = [url for url in tab.asked if url.endswith(".js")]
    assert [url.rpartition("-")[2] for url in loaded] == ["2.js"]


def test_rows_that_were_left_behind_are_missed_in_words(shared, write, tmp_path):
    rows = [write.generated(n, f"{n}?", "x") for n in range(300)]
    run = write.run(tmp_path / "run", {"quiz": rows})
    write_html(run, tmp_path / "report.html", largest=1000)
    shutil.rmtree(tmp_path / "report_rows")
    page = shared.open(tmp_path / "report.html", "#/documents?doc=quiz/1")
    sync_api.expect(page.locator(".pane")).to_contain_text("belongs beside this file")
    assert all("ERR_FILE_NOT_FOUND" in fault for fault in shared.faults)


def test_text_can_be_read_on_every_ground_in_both_themes(tab, story):
    """Contrast as WCAG 2.2 computes it, success criterion 1.4.3: at least 4.5."""
    page = tab.open(story)
    names = (
        ["paper", "panel", "wash"],
        ["ink", "soft", "accent", "good", "bad", "warn", "odd"],
    )
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        colours = page.evaluate(
            """names => Object.fromEntries(names.map(name => {
                const style = getComputedStyle(document.documentElement);
                return [name, style.getPropertyValue(`--${name}`).trim()];
            }))""",
            [*names[0], *names[1]],
        )
        low = {
            (theme, ground, text): ratio
            for ground in names[0]
            for text in names[1]
            if (ratio := contrast(colours[ground], colours[text])) < 4.5
        }
        assert low == {}, json.dumps(colours)
    page.emulate_media(color_scheme="light")


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour):
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares
    ]
    return sum(w * s for w, s in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
