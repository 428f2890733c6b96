"""Fallback of the page without JavaScript: verdict, gates and metrics, as a table.

Viewers of build artifacts often disable scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from pytest_evals.reports.escape import one_line


def plain_html(facts: Mapping[str, Any]) -> str:
    """Return the data of the run as HTML; all strings are escaped."""
    verdict = facts.get("verdict") or "no gates"
    lines = [
        f"<h1>{_text(facts.get('model_name') or 'evals')}: {_text(verdict)}</h1>",
        "<p>This viewer runs no scripts: documents are shown where they may run.</p>",
    ]
    if facts.get("partial"):
        lines.append(f"<p>partial run: {_text(facts['partial'])}</p>")
    lines += [f"<p>warning: {_text(one)}</p>" for one in facts.get("warnings") or ()]
    if facts.get("gates"):
        lines += _table(("gate", "verdict", "why"), _gates(facts["gates"]))
    lines += _table(("task", "metric", "value", "stderr"), _numbers(facts))
    for one in facts["listed"]:
        part = facts["parts"][one["name"]]
        for error in part.get("judge_errors") or ():
            for text in error["text"]:
                lines.append(f"<p>{_text(part['alias'])}: {_text(text)}</p>")
    return "\n".join(lines)


def _gates(gates: list[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for one in gates:
        yield one.get("node"), one.get("outcome"), one.get("reason")


def _numbers(facts: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for one in facts["listed"]:
        part = facts["parts"][one["name"]]
        for metric in part["metrics"]:
            yield part["alias"], metric["key"], metric["value"], metric["stderr"]


def _table(titles: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> list[str]:
    heading = "".join(f"<th>{title}</th>" for title in titles)
    lines = ["<table>", f"<tr>{heading}</tr>"]
    for row in rows:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return [*lines, "</table>"]


def _text(value: Any) -> str:
    return "" if value is None else escape(one_line(value))
