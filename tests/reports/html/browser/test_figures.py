"""Figures of a task: calibration, slices, distributions, history."""

from __future__ import annotations

import math

import pytest

from pytest_evals.reports.html.write import write_html

sync_api = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def report(write, tmp_path_factory):
    """Choices: ten with confidence 0.9, of which nine are correct, and ten with 0.6, of
    which five are; and texts with latency. One earlier run is a baseline."""
    base = tmp_path_factory.mktemp("figures") / ".evals"
    rows = []
    for n in range(20):
        sure = 0.9 if n < 10 else 0.6
        odds = {" a": math.log(sure), " b": math.log(1 - sure)}
        right = n != 0 if n < 10 else n % 2 == 0
        doc = {"subject": ["law", "art"][n // 10]}
        rows.append(write.chosen(n, f"{n}?", odds, 0 if right else 1, doc=doc))
    texts = [
        write.generated(n, f"{n}?", "x" * (n + 1), correct=n > 2, latency_s=1 + n / 8)
        for n in range(9)
    ]
    tasks = {"exam": rows, "chat": texts}
    gate = write.gate("exam", "passed", bounds=[{"op": ">=", "value": 0.65}])
    old = write.run(base / "runs/a", tasks, date=1e9)
    write.run(base / "baselines/main", tasks, date=1e9)
    assert old
    run = write.run(base / "runs/b", tasks, date=1e9 + 60, gates=[gate])
    path = base.parent / "report.html"
    write_html(run, path)
    return path


def labels(page):
    charts = page.locator("main figure svg[role=img]")
    sync_api.expect(charts.first).to_be_visible()
    return [one.get_attribute("aria-label") for one in charts.all()]


def test_calibration_compares_confidence_with_accuracy(tab, report):
    page = tab.open(report, "#/task?name=exam")
    label = "accuracy by confidence: 0.600: 0.500 of 10; 0.900: 0.900 of 10"
    assert label in labels(page)
    caption = page.locator("figcaption", has_text="Calibration").inner_text()
    assert "expected calibration error 0.050" in caption  # (10 * 0.1 + 10 * 0) / 20


def test_accuracy_is_shown_by_slices_with_wilson_intervals(tab, report):
    page = tab.open(report, "#/task?name=exam")
    page.get_by_label("slice by").select_option(label="subject")
    rows = page.locator("table.slices tr").all_inner_texts()
    # Wilson's 90% intervals of 5 and 9 of 10, by statsmodels.
    assert [row.split() for row in rows] == [
        ["art", "0.500", "90%", "CI", "0.269", "to", "0.731", "5", "of", "10"],
        ["law", "0.900", "90%", "CI", "0.652", "to", "0.977", "9", "of", "10"],
    ]


def test_lengths_and_latency_have_histograms_by_correctness(tab, report):
    page = tab.open(report, "#/task?name=chat")
    found = labels(page)
    assert "answer characters of 9 documents from 1 to 9" in found
    assert "latency (s) of 9 documents from 1 to 2" in found
    titles = page.locator("figure svg g title").all_text_contents()
    assert "1 to 1.333: 1 document, 1 wrong" in titles


def test_history_has_baselines_and_thresholds(tab, report):
    page = tab.open(report, "#/task?name=exam")
    (history,) = [one for one in labels(page) if one.startswith("over 2 runs")]
    assert history == ("over 2 runs: 0.700 (baseline main), 0.700; threshold >= 0.650")
    assert page.locator("svg line.threshold").count() == 1
