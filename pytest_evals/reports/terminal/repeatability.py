"""Run-to-run repeatability as text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_evals.core.repeatability import MetricRepeatability
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.overview.table import (
    TableColumn,
    TableLine,
    TableRow,
    table_lines,
)


def repeatability_lines(found: MetricRepeatability, width: int) -> list[TableLine]:
    """Yield the flip rate of one metric, and the thresholds that it allows."""
    return [
        *map(TableLine, _facts(found)),
        *(_bars(found, width) if found.bars else ()),
    ]


def _facts(found: MetricRepeatability) -> Iterator[str]:
    yield (
        f"{one_line(found.task)}: {one_line(found.key)}, {found.n_runs} runs of "
        f"{found.n:,} documents: mean {found.mean:.4f}, run-to-run sd "
        f"{found.stderr:.4f}, {_flips(found)}"
    )
    yield (
        f"  sampling error of the documents themselves: {found.sampling:.4f} (matters "
        "only beyond these)"
    )
    if not found.flip_rate:
        yield "  no answer flipped: this model is repeatable on this machine"


def _flips(found: MetricRepeatability) -> str:
    if found.is_share:
        return f"{100 * found.flip_rate:.1f}% of answers flip"
    return f"documents change by {math.sqrt(found.flip_rate):.3g}"


def _bars(found: MetricRepeatability, width: int) -> list[TableLine]:
    scale, unit = (100, " pt") if found.is_bounded else (1, "")
    drops = [f"{scale * drop:.3g}{unit}" for drop, _ in found.bars[0].catches]
    way = "rise" if found.is_lower_better else "drop"
    columns = (
        TableColumn(title="  threshold", right=True),
        TableColumn(title="false positive", right=True),
        TableColumn(title=f"detects a {way} of {' / '.join(drops)}"),
    )
    rows = [
        TableRow(
            (
                _limit(bar.value, found.is_bounded),
                _percent(bar.false_alarm),
                " / ".join(_percent(chance) for _, chance in bar.catches),
            )
        )
        for bar in found.bars
    ]
    return table_lines(columns, rows, width)


def _limit(value: float, is_bounded: bool) -> str:
    """Return a threshold; a proportion has none if every run would meet it."""
    if not is_bounded:
        return f"{value:g}"
    return f"{value:.3f}" if 0 < value < 1 else "none"


def _percent(chance: float) -> str:
    return f"{100 * chance:.2g}%" if chance < 0.1 else f"{100 * chance:.0f}%"
