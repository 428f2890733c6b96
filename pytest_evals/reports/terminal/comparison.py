"""Comparison of a run with a baseline, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_evals.core.comparison import Comparison, DocumentChange, MetricChange
from pytest_evals.gates.formatting import figure
from pytest_evals.reports.escape import cut, one_line
from pytest_evals.reports.overview.table import (
    TableColumn,
    TableLine,
    TableRow,
    table_lines,
)

SHOWN = 5
"""Maximum number of documents shown of each kind; the file contains all."""
_GREEN, _RED, _YELLOW = {"green": True}, {"red": True}, {"yellow": True}


def comparison_lines(found: Comparison, width: int) -> list[TableLine]:
    """Yield the changes, at most ``width`` columns wide except for refusals."""
    lines: list[TableLine] = []
    if found.metrics:
        columns = (
            TableColumn(title="task", least=8),
            TableColumn(title="metric", least=8),
            TableColumn(title=cut(found.name, 20), right=True),
            TableColumn(title="now", right=True),
            TableColumn(title="change", right=True),
        )
        lines += table_lines(columns, [_metric(one) for one in found.metrics], width)
    if found.n_paired:
        n_worse, n_better = len(found.worse), len(found.better)
        lines.append(
            TableLine(f"{found.n_paired} documents: {n_worse} worse, {n_better} better")
        )
    lines += _documents("worse", found.worse, width, _RED)
    lines += _documents("better", found.better, width, _GREEN)
    lines += [TableLine(f"not compared: {text}", _RED) for text in found.refused]
    lines += [TableLine(f"warning: {text}", _YELLOW) for text in found.warnings]
    return lines


def _metric(one: MetricChange) -> TableRow:
    change, markup = "-", {}
    if one.before is not None and one.now is not None:
        difference = one.now - one.before
        change = f"{'+' if difference >= 0 else '-'}{figure(abs(difference))}"
        if difference and one.higher_is_better is not None:
            markup = _GREEN if (difference > 0) == one.higher_is_better else _RED
    key = one.key.removesuffix(",none")
    cells = (one.task, key, _figure(one.before), _figure(one.now), change)
    return TableRow(tuple(map(one_line, cells)), markup)


def _figure(value: float | None) -> str:
    return "-" if value is None else figure(value)


def _documents(
    word: str, changes: Sequence[DocumentChange], width: int, markup: dict[str, bool]
) -> Iterator[TableLine]:
    for one in changes[:SHOWN]:
        yield TableLine(f"{word}: {one_line(one.task)}[{one_line(one.id)}]", markup)
        facts = {
            "prompt": _tail(one.prompt, width - 10),
            "target": one.target,
            "was": one.before,
            "now": one.now,
        }
        for name, text in facts.items():
            yield TableLine(f"  {name:<8}{cut(one_line(text), width - 10)}")
    if len(changes) > SHOWN:
        yield TableLine(f"and {len(changes) - SHOWN} more {word}")


def _tail(prompt: Any, width: int) -> str:
    """Return the end of a prompt, which contains the question."""
    text = prompt if isinstance(prompt, str) else str(prompt[-1].get("content", ""))
    text = one_line(text)
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]
