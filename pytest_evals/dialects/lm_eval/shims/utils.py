"""Functions of lm-eval's ``utils.py`` (0.4.13) that tasks import: values and results as
text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_GLUED = (
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
    """The text without the blanks that a tokenizer put around its signs."""
    for apart, together in _GLUED[:5]:
        string = string.replace(apart, together)
    signs = dict(_GLUED[5:])
    return re.sub(r" ['.,]", lambda found: signs[found.group()], string)


def handle_non_serializable(o: Any) -> Any:
    """What JSON does not know: scalars of NumPy as Python's, sets as lists, all else as
    text."""
    import numpy as np

    if isinstance(o, np.bool_ | np.integer | np.floating):
        return o.item()
    return list(o) if isinstance(o, set) else str(o)


def make_table(
    result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False
) -> str:
    """Results as a Markdown table: a row a metric, filters and standard errors in
    columns of their own."""
    head = ["Groups" if column == "groups" else "Tasks", "Version", "Filter", "n-shot"]
    rows: list[list[Any]] = [[*head, "Metric", "Value", "Stderr"], ["---"] * 7]
    found: Mapping[str, Any] = result_dict[column]
    for name in sorted(found) if sort_results else found:
        numbers = found[name]
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
