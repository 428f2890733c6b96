"""Comparison of a run with a baseline, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from pytest_evals.core.comparison import Comparison, DocumentChange, MetricChange
from pytest_evals.errors import plural
from pytest_evals.gates.terms import figure, shown_change
from pytest_evals.reports.escape import cut, one_line, tail
from pytest_evals.reports.overview.table import (
    TableColumn,
    TableLine,
    TableRow,
    table_lines,
)

SHOWN = 5
"""Maximum number of documents shown of each kind; the file contains all."""
_SAME = 6
"""Minimum number of characters that are omitted because all prompts end with them."""
_PROMPT, _ANSWER = 60, 40
"""Maximum characters of a prompt, and of a target or an answer."""
_DOCUMENTS = (
    TableColumn(title=""),
    TableColumn(title="document", rank=3, least=12),
    TableColumn(title="prompt", rank=1, least=20),
    TableColumn(title="target", rank=2, least=8),
    TableColumn(title="was", rank=2, least=8),
    TableColumn(title="now", rank=2, least=8),
)
_GREEN, _RED, _YELLOW = {"green": True}, {"red": True}, {"yellow": True}


def comparison_lines(
    found: Comparison, width: int, *, brief: bool = False
) -> list[TableLine]:
    """Return the differences between the runs, the changes of metrics, then those of
    documents; tables at most ``width`` columns wide. ``brief``: without documents."""
    lines = difference_lines(found)
    if found.metrics:
        columns = (
            TableColumn(title="task", rank=1, least=8),
            TableColumn(title="metric", rank=1, least=8),
            TableColumn(title=cut(found.name, 20), right=True, rank=1, least=11),
            TableColumn(title="now", right=True),
            TableColumn(title="change", right=True),
            TableColumn(title="90% CI", rank=2),
        )
        lines += table_lines(columns, [_metric(one) for one in found.metrics], width)
    if found.n_paired:
        n_worse, n_better = len(found.worse), len(found.better)
        paired = plural(found.n_paired, "document")
        lines.append(TableLine(f"{paired}: {n_worse} worse, {n_better} better"))
    lines += [] if brief else _documents(found, width)
    lines += [TableLine(f"not compared: {text}", _RED) for text in found.refused]
    lines += [TableLine(f"warning: {text}", _YELLOW) for text in found.warnings]
    return lines


def difference_lines(found: Comparison) -> list[TableLine]:
    """Return why the two runs may differ, other than by the model's answers."""
    lines = ["why the runs may differ:"] * bool(found.differences)
    for one in found.differences:
        lines += [
            f"  {one_line(one.text)}",
            *(f"    {one_line(e)}" for e in one.examples),
        ]
    return [TableLine(line, _YELLOW) for line in lines]


def _metric(one: MetricChange) -> TableRow:
    markup = {}
    if one.before is not None and one.now is not None:
        difference = one.now - one.before
        if difference and one.higher_is_better is not None:
            markup = _GREEN if (difference > 0) == one.higher_is_better else _RED
    key = one.key.removesuffix(",none")
    cells = (one.task, key, _figure(one.before), _figure(one.now), *change_cells(one))
    return TableRow(tuple(map(one_line, cells)), markup)


def change_cells(one: MetricChange) -> tuple[str, str]:
    """Return the change of a metric, and its confidence interval or the reason why
    it is missing, as text."""
    if one.before is None or one.now is None:
        return "-", one.no_interval
    by = one.now - one.before
    if one.unit == "percent":
        by /= one.before
    change = shown_change(by, one.unit)
    if one.low is None or one.high is None:
        return change, one.no_interval
    low, high = (shown_change(end, one.unit) for end in (one.low, one.high))
    return change, f"[{low}, {high}]"


def _figure(value: float | None) -> str:
    return "-" if value is None else figure(value)


def _documents(found: Comparison, width: int) -> Iterator[TableLine]:
    kinds = (("worse", found.worse, _RED), ("better", found.better, _GREEN))
    ends = _shared_ends([one for _, changes, _ in kinds for one in changes[:SHOWN]])
    rows = [
        TableRow((word, *map(one_line, _cells(one, ends.get(one.task, 0)))), markup)
        for word, changes, markup in kinds
        for one in changes[:SHOWN]
    ]
    if rows:
        yield from table_lines(_DOCUMENTS, rows, width)
    for word, changes, _ in kinds:
        if len(changes) > SHOWN:
            yield TableLine(f"and {len(changes) - SHOWN} more {word}")


def _shared_ends(changes: Sequence[DocumentChange]) -> dict[str, int]:
    """Return for each task the length of the end that its prompts share, such as
    ``Answer:``; the characters before it differ."""
    prompts: dict[str, list[str]] = {}
    for one in changes:
        prompts.setdefault(one.task, []).append(_asked(one)[::-1])
    shared = {task: _n_equal(min(many), max(many)) for task, many in prompts.items()}
    return {task: n for task, n in shared.items() if n >= _SAME and prompts[task][1:]}


def _n_equal(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _asked(one: DocumentChange) -> str:
    prompt = one.prompt
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"])


def _cells(one: DocumentChange, n_shared: int) -> Iterator[str]:
    yield f"{one.task}[{one.id}]"
    asked = _asked(one)
    differing = asked[:-n_shared].rstrip() if n_shared else ""
    yield tail(f"{differing} …" if differing else asked, _PROMPT)
    for text in (one.target, one.before, one.now):
        yield cut(text, _ANSWER)
