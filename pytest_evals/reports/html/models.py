"""The HTML page of several models: metrics with paired changes, and a matrix of
documents, with links to the page of each model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from pytest_evals.core.comparison import ModelComparison, ModelMetric
from pytest_evals.reports.escape import one_line
from pytest_evals.reports.html.chunks import packed
from pytest_evals.reports.html.page import plain_table, whole_page
from pytest_evals.reports.terminal.models import cells, is_better, notes
from pytest_evals.store.files import make_folder, replace_text

MOST_COLUMNS = 64
"""Maximum number of models in the page; it names the others."""
_ANSWER = 200
"""Maximum characters of an answer and of a target."""
_SCRIPTS = ("dom", "unpack", "models")


def write_models_html(
    found: ModelComparison,
    path: Path,
    pages: Mapping[str, str],
    *,
    option: str = "--evals-html",
) -> None:
    """Write the page atomically. ``pages``: model → the address of its page.

    Raises:
        StoreError: The page cannot be written; an existing one is left unchanged.
    """
    make_folder(path.parent, option)
    data = _data(found, pages)
    text = whole_page(
        "models · evals",
        _plain(found),
        {"models": packed(data)},
        _SCRIPTS,
        ("page.css", "models.css"),
    )
    replace_text(path, text, option)


def _data(found: ModelComparison, pages: Mapping[str, str]) -> dict[str, Any]:
    shown = found.models[:MOST_COLUMNS]
    rest = ", ".join(found.models[MOST_COLUMNS:])
    omitted = [f"not shown, after {MOST_COLUMNS} columns: {rest}"] if rest else []
    return {
        "models": shown,
        "pages": {name: pages[name] for name in shown if name in pages},
        "notes": [*notes(found)],
        "refused": [*found.refused, *omitted],
        "metrics": [*_metrics(found)],
        "documents": [
            {
                "task": one.task,
                "id": one.id,
                "target": one.target[:_ANSWER],
                "agreement": one.agreement,
                "correct": one.correct[:MOST_COLUMNS],
                "answers": [text[:_ANSWER] for text in one.answers[:MOST_COLUMNS]],
            }
            for one in found.documents
        ],
    }


def _metrics(found: ModelComparison) -> Iterator[dict[str, Any]]:
    for (task, _), group in groupby(found.metrics, lambda one: (one.task, one.key)):
        each = [*group][:MOST_COLUMNS]
        yield {"task": task, "metric": each[0].name, "cells": [*map(_cell, each)]}


def _cell(one: ModelMetric) -> dict[str, Any]:
    _, value, change, limits, p_value, rank, first = cells(one)
    return {
        "value": value,
        "change": change,
        "limits": limits,
        "p": p_value,
        "rank": rank,
        "first": first,
        "better": is_better(one),
    }


def _plain(found: ModelComparison) -> str:
    heading = ("task", "metric", "model", "value", "change", "90% CI", "p", "rank")
    rows = ((one.task, one.name, *cells(one)[:-1]) for one in found.metrics)
    lines = ["<h1>Models</h1>", *plain_table(heading, rows)]
    return "\n".join(
        [*lines, *(f"<p>{escape(one_line(text))}</p>" for text in notes(found))]
    )
