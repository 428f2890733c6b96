"""A headless browser, and a report with all features.

The browser is Debian's Chromium, or the one that Playwright has installed; without one
these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from pytest_evals.reports.html.other_runs import OtherRuns
from pytest_evals.reports.html.write import write_html
from pytest_evals.run.comparison import changes

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PATIENCE_MS = 30_000
RATINGS = {
    "metric": "exact_match,none",
    "text": ["exact_match: judge's mean 0.5", "exact_match: agreement 0.75 (3 of 4)"],
    "confusion": {"pass": {"pass": 1, "fail": 1}, "fail": {"pass": 0, "fail": 2}},
}
MARKUP = "<img src=x onerror=\"document.title = 'taken'\">"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark these tests as slow: each opens a page in a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    sync_api.expect.set_options(timeout=PATIENCE_MS)
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
    """A browser page that records errors."""

    def __init__(self, browser, **settings):
        settings = {"viewport": {"width": 1280, "height": 800}} | settings
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.faults.append(dialog.message))

    def _on_console(self, message):
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
    """A tab without errors, which requests files only."""
    shared.faults.clear()
    shared.requests.clear()
    yield shared
    assert shared.faults == []
    assert {url.partition(":")[0] for url in shared.requests} <= {"file", "about"}


@pytest.fixture(scope="module")
def story(write, tmp_path_factory):
    """A run with a failed gate, compared with a baseline."""
    base = tmp_path_factory.mktemp("story") / ".evals" / "runs"
    secret = "The needle stands " + "far " * 200 + "in front. Question?"
    chat = [{"role": "user", "content": "Rate: right"}]
    judged = {
        "exchanges": [
            {
                "model": "judge",
                "arguments": {"arg_0": chat, "arg_1": {"until": []}},
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
    capitals = [
        write.chosen(n, f"Capital {n}?", {" Rome": -1.5, " Oslo": -4.0}, n % 2)
        for n in range(6)
    ]
    before = [dict(row) for row in quiz]
    before[1] |= {"resps": [["the dog sat on a mat"]], "correct": True}
    before[1] |= {"answer": "the dog sat on a mat"}
    before[2] |= {"correct": False}
    tasks = {"quiz": quiz, "capitals": capitals}
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
        warnings=[MARKUP, "capitals: its targets are odd"],
        judge_errors={"quiz": [RATINGS]},
    )
    path = base.parent / "report.html"
    found = asdict(changes("main", baseline, run))
    write_html(run, path, others=OtherRuns(baseline, found))
    return path
