"""Models side by side, as text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from pytest_evals.core.comparison import (
    ModelComparison,
    ModelDocument,
    ModelMetric,
    ModelRank,
)
from pytest_evals.gates.terms import figure
from pytest_evals.reports.escape import cut, one_line
from pytest_evals.reports.overview.table import (
    TableColumn,
    TableLine,
    TableRow,
    table_lines,
)
from pytest_evals.reports.terminal.comparison import change_cells

SHOWN = 5
"""Maximum number of documents shown on which the models disagree."""
_LEVEL = 0.05
_ANSWER = 24
_NAMES = ("task", "metric")
_NUMBERS = (
    TableColumn(title="value", right=True),
    TableColumn(title="change", right=True),
    TableColumn(title="90% CI", rank=7),
    TableColumn(title="p", right=True, rank=6),
    TableColumn(title="rank", right=True, rank=4),
    TableColumn(title="first", right=True, rank=5),
)


def model_lines(
    found: ModelComparison,
    width: int,
    left_out: Collection[str] = (),
    kind: str = "model",
) -> list[TableLine]:
    """Return the metrics of each model with the paired change from the reference, then
    the documents on which the models disagree.

    Args:
        left_out: Tasks without rows, as those of groups.
        kind: What is compared, ``model`` or ``variant``.
    """
    rows = [*_metric_rows(found, left_out)]
    names = (TableColumn(title=one, rank=1, least=8) for one in (*_NAMES, kind))
    lines = table_lines((*names, *_NUMBERS), rows, width) if rows else []
    lines += [TableLine(text) for text in notes(found)]
    documents = disputed(found)
    columns = (
        TableColumn(title="they disagree", rank=2, least=12),
        TableColumn(title="target", rank=1, least=8),
        *(TableColumn(title=one_line(name), rank=3, least=8) for name in found.models),
    )
    if documents.rows:
        lines += table_lines(columns, [TableRow(one) for one in documents.rows], width)
    if documents.more:
        lines.append(TableLine(documents.more))
    yellow = {"yellow": True}
    return lines + [TableLine(one_line(text), yellow) for text in found.refused]


def notes(found: ModelComparison) -> Iterator[str]:
    """Yield how the table was computed, and the counts of documents."""
    if any(one.p_value is not None for one in found.metrics):
        yield (
            f"change: paired with {one_line(found.reference)}; p: two-sided, corrected "
            "for all models (Holm)"
        )
    if any(one.rank is not None for one in found.metrics):
        yield "rank: with 90% interval over other documents; first: how often it leads"
    counts = found.agreements
    if any(counts.values()):
        shown = ", ".join(f"{n:,} {name}" for name, n in counts.items())
        yield f"documents: {shown}"


def rank_text(rank: ModelRank | None) -> str:
    """Return a rank with its interval: ``2 (1-3)``."""
    if rank is None:
        return ""
    return f"{rank.rank} ({rank.low}-{rank.high})"


def p_text(p_value: float | None) -> str:
    """Return a p-value."""
    if p_value is None:
        return ""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _metric_rows(
    found: ModelComparison, left_out: Collection[str]
) -> Iterator[TableRow]:
    before: tuple[str, str] = "", ""
    for one in found.metrics:
        if one.task in left_out:
            continue
        task, name = one.task, one.name
        if (one.task, one.key) == before:
            task = name = ""
        elif one.task == before[0]:
            task = ""
        before = one.task, one.key
        yield TableRow(tuple(map(one_line, (task, name, *cells(one)))), _markup(one))


def cells(one: ModelMetric) -> tuple[str, ...]:
    """Return model, value, change, interval, p-value, rank and share of the first
    place, as text."""
    change, limits = change_cells(one.change) if one.change else ("", "")
    value = "-" if one.value is None else figure(one.value)
    first = f"{one.rank.first:.0%}" if one.rank else ""
    return (
        one.model,
        value,
        change,
        limits,
        p_text(one.p_value),
        rank_text(one.rank),
        first,
    )


def is_better(one: ModelMetric) -> bool | None:
    """Return whether a model is proven better or worse than the reference; ``None`` if
    neither."""
    change = one.change
    if change is None or one.p_value is None or one.p_value > _LEVEL:
        return None
    if change.before is None or change.now is None or one.higher_is_better is None:
        return None
    return (change.now > change.before) == one.higher_is_better


def _markup(one: ModelMetric) -> dict[str, bool]:
    better = is_better(one)
    return {} if better is None else {"green" if better else "red": True}


class Disputed(NamedTuple):
    """The first documents on which models disagree: the rows of a table, and how many
    more there are, as text."""

    rows: Sequence[tuple[str, ...]]
    more: str


def disputed(found: ModelComparison) -> Disputed:
    """Return the first documents on which models disagree."""
    every = [one for one in found.documents if one.agreement == "they disagree"]
    more = f"and {len(every) - SHOWN:,} more" if len(every) > SHOWN else ""
    return Disputed([*map(_cells, every[:SHOWN])], more)


def _cells(one: ModelDocument) -> tuple[str, ...]:
    signs = ("✓" if correct else "✗" for correct in one.correct)
    answers = (cut(one_line(text), _ANSWER) for text in one.answers)
    shown = (f"{sign} {text}" for sign, text in zip(signs, answers, strict=True))
    return f"{one_line(one.task)}[{one_line(one.id)}]", one_line(one.target), *shown
