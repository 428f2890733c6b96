"""What repeated runs have shown, as text."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_evals.core.calibration import Calibration
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.table import Column, Line, Row, table_lines

__all__ = ["calibration_lines"]


def calibration_lines(found: Calibration, width: int) -> list[Line]:
    """One metric: its noise, and the bars that it allows."""
    return [*map(Line, _facts(found)), *(_bars(found, width) if found.bars else ())]


def _facts(found: Calibration) -> Iterator[str]:
    yield (
        f"{one_line(found.task)}: {one_line(found.key)}, {found.n_runs} runs of "
        f"{found.n:,} documents: mean {found.mean:.4f}, run-to-run sd "
        f"{found.stderr:.4f}, {100 * found.flip_rate:.1f}% of answers turn"
    )
    yield (
        f"  sampling error of the documents themselves: {found.sampling:.4f} (matters "
        "only beyond these)"
    )
    if not found.flip_rate:
        yield "  no answer has turned: this model repeats itself, on this machine"


def _bars(found: Calibration, width: int) -> list[Line]:
    drops = [f"{100 * drop:g}" for drop, _ in found.bars[0].catches]
    columns = (
        Column(title="  limit", right=True),
        Column(title="false alarm", right=True),
        Column(title=f"catches a drop of {' / '.join(drops)} pt"),
    )
    rows = [
        Row(
            (
                f"{bar.value:.3f}",
                _percent(bar.false_alarm),
                " / ".join(_percent(chance) for _, chance in bar.catches),
            )
        )
        for bar in found.bars
    ]
    return table_lines(columns, rows, width)


def _percent(chance: float) -> str:
    return f"{100 * chance:.2g}%" if chance < 0.1 else f"{100 * chance:.0f}%"
