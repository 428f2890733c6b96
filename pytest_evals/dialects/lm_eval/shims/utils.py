"""Functions of lm-eval's ``utils.py`` (0.4.13) that tasks import: conversion of values
and results to strings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_DETOKENIZATION = (
    (" n't", "n't"),
    (" )", ")"),
    ("( ", "("),
    ('" ', '"'),
    (' "', '"'),
    (" '", "'"),
    (" .", "."),
    (" ,", ","),
)


def general_detokenize(string: str) -> str:
    """Remove the spaces that a tokenizer put around punctuation."""
    for spaced, joined in _DETOKENIZATION[:5]:
        string = string.replace(spaced, joined)
    signs = dict(_DETOKENIZATION[5:])
    return re.sub(r" ['.,]", lambda match: signs[match.group()], string)


def handle_non_serializable(o: Any) -> Any:
    """Convert values that JSON does not support: NumPy scalars, sets to lists, others
    to strings."""
    import numpy as np

    if isinstance(o, np.bool_ | np.integer | np.floating):
        return o.item()
    return list(o) if isinstance(o, set) else str(o)


def make_table(
    result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False
) -> str:
    """Results as a Markdown table: one row for each metric."""
    head = ["Groups" if column == "groups" else "Tasks", "Version", "Filter", "n-shot"]
    rows: list[list[Any]] = [[*head, "Metric", "Value", "Stderr"], ["---"] * 7]
    results: Mapping[str, Any] = result_dict[column]
    for name in sorted(results) if sort_results else results:
        numbers = results[name]
        first = [
            numbers.get("alias", name),
            result_dict.get("versions", {}).get(name, "N/A"),
        ]
        for key in sorted(key for key in numbers if "," in key):
            metric, _, pipeline = key.partition(",")
            if metric.endswith("_stderr"):
                continue
            shots = result_dict.get("n-shot", {}).get(name, "")
            error = numbers.get(f"{metric}_stderr,{pipeline}", "N/A")
            shown = [_rounded(numbers[key]), _rounded(error)]
            rows.append([*first, pipeline, shots, metric, *shown])
            first = ["", ""]
    return "\n".join(f"|{'|'.join(map(str, row))}|" for row in rows)


def _rounded(value: Any) -> Any:
    return f"{value:.4f}" if isinstance(value, float) else value
