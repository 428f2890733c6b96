"""What repeated runs have shown, as text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_evals.core.repeatability import MetricRepeatability
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.overview.table import Column, Line, Row, table_lines


def calibration_lines(found: MetricRepeatability, width: int) -> list[Line]:
    """One metric: its noise, and the bars that it allows."""
    return [*map(Line, _facts(found)), *(_bars(found, width) if found.bars else ())]


def _facts(found: MetricRepeatability) -> Iterator[str]:
    yield (
        f"{one_line(found.task)}: {one_line(found.key)}, {found.n_runs} runs of "
        f"{found.n:,} documents: mean {found.mean:.4f}, run-to-run sd "
        f"{found.stderr:.4f}, {_turns(found)}"
    )
    yield (
        f"  sampling error of the documents themselves: {found.sampling:.4f} (matters "
        "only beyond these)"
    )
    if not found.flip_rate:
        yield "  no answer has turned: this model repeats itself, on this machine"


def _turns(found: MetricRepeatability) -> str:
    if found.is_share:
        return f"{100 * found.flip_rate:.1f}% of answers turn"
    return f"documents change by {math.sqrt(found.flip_rate):.3g}"


def _bars(found: MetricRepeatability, width: int) -> list[Line]:
    scale, unit = (100, " pt") if found.is_bounded else (1, "")
    drops = [f"{scale * drop:.3g}{unit}" for drop, _ in found.bars[0].catches]
    way = "rise" if found.is_lower_better else "drop"
    columns = (
        Column(title="  limit", right=True),
        Column(title="false alarm", right=True),
        Column(title=f"catches a {way} of {' / '.join(drops)}"),
    )
    rows = [
        Row(
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
    """Of a share, a limit that no run can miss is none."""
    if not is_bounded:
        return f"{value:g}"
    return f"{value:.3f}" if 0 < value < 1 else "none"


def _percent(chance: float) -> str:
    return f"{100 * chance:.2g}%" if chance < 0.1 else f"{100 * chance:.0f}%"
