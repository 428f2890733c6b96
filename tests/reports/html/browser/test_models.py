"""The page of several models in a browser."""

import pytest

from pytest_evals.core.comparison import (
    MetricChange,
    ModelComparison,
    ModelDocument,
    ModelMetric,
    ModelRank,
)
from pytest_evals.reports.html.models import write_models_html
from tests.reports.html.browser.conftest import MARKUP

CHANGE = MetricChange(
    task="sums", key="exact,none", before=0.5, now=0.75, higher_is_better=True,
    low=0.1, high=0.4,
)  # fmt: skip
N = 450


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    metrics = (
        ModelMetric(task="sums", key="exact,none", model="small", value=0.5),
        ModelMetric(
            task="sums",
            key="exact,none",
            model=MARKUP,
            value=0.75,
            higher_is_better=True,
            change=CHANGE,
            p_value=0.01,
            rank=ModelRank(1, 1, 2, 0.9),
        ),
    )
    kinds = [(True, True), (False, False), (True, False)]
    documents = tuple(
        ModelDocument(
            task="sums",
            id=f"q{i}",
            correct=kinds[i % 3],
            answers=("2", MARKUP),
            target="2",
        )
        for i in range(N)
    )
    found = ModelComparison(
        models=("small", MARKUP),
        reference="small",
        metrics=metrics,
        documents=documents,
    )
    path = tmp_path_factory.mktemp("models") / "r.html"
    write_models_html(found, path, {"small": "r-small.html"})
    return path


def test_the_table_has_values_changes_and_ranks(tab, page):
    view = tab.open(page)
    cells = view.locator("tbody").first.locator("tr").first.locator("td")
    assert cells.nth(2).inner_text().startswith("0.500")
    assert cells.nth(3).inner_text().splitlines() == [
        "0.750",
        "+0.250 [+0.100, +0.400]",
        "p 0.010",
        "rank 1 (1-2), first 90%",
    ]
    link = view.get_by_role("link", name="small").first
    assert link.get_attribute("href") == "r-small.html"
    assert view.title() == "models · evals"  # markup in names and answers is text


def test_documents_are_filtered_by_agreement_and_by_id(tab, page):
    view = tab.open(page)
    rows = view.locator("tbody").last.locator("tr")
    assert rows.count() == 200
    view.get_by_role("button", name="200 more").click()
    view.get_by_role("button", name="50 more").click()
    assert rows.count() == N
    view.get_by_label("agreement").select_option("they disagree")
    assert rows.count() == N / 3
    assert rows.first.inner_text().startswith("sums[q2]")
    assert "✓ 2" in rows.first.inner_text()
    assert f"✗ {MARKUP}" in rows.first.inner_text()
    view.get_by_label("search").fill("[q11]")
    assert rows.count() == 1
