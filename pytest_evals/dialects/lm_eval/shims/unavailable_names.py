"""Names of lm-eval that the shims do not support, and the messages for them."""

from __future__ import annotations

from collections.abc import Mapping

INSTALL = "pip install lm-eval==0.4.13"

UNSUPPORTED = frozenset((
    "_aggregation_list", "_higher_is_better", "_metric_fn_kwargs", "_metric_fn_list",
    "build_all_requests", "build_qa_turn", "doc_iterator", "instances",
    "multiple_input_context", "override_metric", "prompt",
))  # fmt: skip
"""Methods and attributes of lm-eval's task classes."""

NEWER: Mapping[str, str] = {
    "aggregate": "aggregation() returns the function of each metric",
    "id": "use task_name",
    "process_instances": "process_results(doc, results) scores one document",
    "scorers": "filter_list and metric_list define what is scored",
}
"""Methods and attributes of task classes after 0.4.13, and their equivalents in
0.4.13."""


def newer_name_message(name: str) -> str:
    """Message for a name that only later releases have."""
    return (
        f"{name} of a task is newer than lm-eval 0.4.13, whose task class is used "
        f"here; instead, {NEWER[name]}"
    )


def needs_lm_eval(name: str) -> str:
    """Message for a name that needs lm-eval itself."""
    return f"{name} needs lm-eval, which is not installed; run: {INSTALL}"
