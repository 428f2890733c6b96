"""Shims: the lm-eval 0.4.13 modules that task modules may import, and their names.

Covers lm-eval's own task tree and a few more names; others need lm-eval itself.
:mod:`pytest_evals.dialects.lm_eval.modules` installs them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from pytest_evals.dialects.lm_eval.shims import (
    config,
    configurable,
    registry,
    samplers,
    task,
)

_DETOKENIZATION = (
    (" n't", "n't"), (" )", ")"), ("( ", "("), ('" ', '"'), (' "', '"'),
    (" '", "'"), (" .", "."), (" ,", ","),
)  # fmt: skip


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


def _of(module: Any, *names: str) -> Mapping[str, Any]:
    return {name: getattr(module, name) for name in names}


NAMES: Mapping[str, Mapping[str, Any]] = {
    "lm_eval": {},
    "lm_eval.api": {},
    "lm_eval.api.filter": _of(registry, "Filter"),
    "lm_eval.api.instance": _of(task, "Instance"),
    "lm_eval.api.metrics": _of(
        registry,
        *("mean", "median", "metric_max_over_ground_truths"),
        *("perplexity", "weighted_perplexity"),
    ),
    "lm_eval.api.registry": _of(
        registry, "register_aggregation", "register_filter", "register_metric"
    ),
    "lm_eval.api.samplers": _of(samplers, "ContextSampler", "FirstNSampler"),
    "lm_eval.api.task": {
        **_of(configurable, "ConfigurableTask", "Instance", "Task", "TaskConfig"),
        **_of(registry, "mean", "weighted_perplexity"),
    },
    "lm_eval.config": {},
    "lm_eval.config.task": _of(config, "FewshotConfig", "TaskConfig"),
    "lm_eval.filters": {},
    "lm_eval.filters.extraction": _of(
        registry, "Filter", "MultiChoiceRegexFilter", "RegexFilter", "register_filter"
    ),
    "lm_eval.tasks": {},
    "lm_eval.utils": {
        "general_detokenize": general_detokenize,
        "handle_non_serializable": handle_non_serializable,
        "logging": logging,
        "make_table": make_table,
        "weighted_f1_score": registry.weighted_f1_score,
    },
}
"""Module → its names."""
