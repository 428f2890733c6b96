"""Results as text, HTML and data frames, for interactive sessions and notebooks.

Works on rows, which are mappings from column to value, and does not depend on the
classes of results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from pytest_evals.errors import MissingExtraError

Row = Mapping[str, Any]

_FAILED = "background: #fdecea; color: #8a1c14; font-weight: bold"
"""Style of the row of a failed gate, legible on light and dark pages."""
_TEXT = "text-align: left"
"""Style of cells with text; notebooks align cells to the right."""
_MOST = 30  # number of metrics, and of gates, that are shown


def as_text(
    heading: str, metrics: Sequence[Row], gates: Sequence[Row], notes: Iterable[str]
) -> str:
    """A run on a few lines: metrics, gates, notes.

    Args:
        metrics: Rows with ``task``, ``metric``, ``value``, ``stderr`` and ``limits``.
        gates: Rows with ``task``, ``gate`` and ``outcome``.
    """
    lines = [heading]
    width = max((len(f"{m['task']}  {m['metric']}") for m in metrics), default=0)
    for one in metrics[:_MOST]:
        name = f"{one['task']}  {one['metric']}"
        lines.append(f"  {name:<{width}}  {number(one)}")
    for gate in gates[:_MOST]:
        lines.append(f"  {gate['outcome']}: {gate['task']}: {gate['gate']}")
    lines += [f"  {line}" for line in notes]
    n_more = max(0, len(metrics) - _MOST) + max(0, len(gates) - _MOST)
    return "\n".join([*lines, f"  and {n_more} more"] if n_more else lines)


def as_html(
    title: str,
    counts: str,
    metrics: Sequence[Row],
    gates: Sequence[Row],
    notes: Iterable[str],
) -> str:
    """The same as two HTML tables. All text is escaped.

    Args:
        metrics: As in :func:`as_text`, and with ``n_scored``.
        gates: As in :func:`as_text`, and with ``reason``.
    """
    parts = [f"<p><b>{escape(title)}</b>: {escape(counts)}</p>"]
    numbers = [(m["task"], m["metric"], number(m), m["n_scored"]) for m in metrics]
    parts.append(table(("task", "metric", "value", "documents"), numbers))
    if gates:
        columns = ("task", "gate", "outcome", "reason")
        verdicts = [tuple(gate[column] for column in columns) for gate in gates]
        styles = [_FAILED if gate.get("is_red") else "" for gate in gates]
        parts.append(table(columns, verdicts, styles))
    return "\n".join([*parts, *(f"<p>{escape(line)}</p>" for line in notes)])


def as_frame(rows: Iterable[Row], columns: Sequence[str]) -> Any:
    """A ``pandas.DataFrame``. ``columns``: those of a frame without rows. Raises
    ``MissingExtraError`` if pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("to_pandas()", "pandas", "pandas") from None
    found = list(rows)
    return pd.DataFrame(found, columns=None if found else columns)


def joined(frames: Mapping[str, Any], column: str) -> Any:
    """One ``pandas.DataFrame`` of several, with their names in a first column."""
    import pandas as pd

    found = {name: frame.reset_index(drop=True) for name, frame in frames.items()}
    whole = pd.concat(found, names=[column, None])
    return whole.reset_index(level=column).reset_index(drop=True)


def number(row: Row) -> str:
    """``value`` with its ``stderr``, or with the ``limits`` of its gate."""
    if row.get("value") is None:
        return "-"
    stderr, limits = row.get("stderr"), row.get("limits")
    noise = "" if stderr is None else f" ± {stderr:.2g}"
    if limits is not None:
        noise = f", {limits}" if limits else ""
    return f"{row['value']:.4g}{noise}"


def table(
    heading: tuple[str, ...],
    rows: Sequence[tuple[Any, ...]],
    styles: Sequence[str] = (),
) -> str:
    """An HTML table with the first rows; all text is escaped."""
    lines = ["<table>", _row("th", heading)]
    for number, row in enumerate(rows[:_MOST]):
        lines.append(_row("td", row, styles[number] if styles else ""))
    if len(rows) > _MOST:
        lines.append(_row("td", (f"and {len(rows) - _MOST} more",)))
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: tuple[Any, ...], style: str = "") -> str:
    attribute = f' style="{style}"' if style else ""
    shown = "".join(
        f'<{tag} style="{_TEXT}">{escape(str(cell))}</{tag}>' for cell in cells
    )
    return f"<tr{attribute}>{shown}</tr>"
