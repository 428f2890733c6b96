"""What lm-eval has and its stand-ins have not, and how that is said."""

from __future__ import annotations

from collections.abc import Mapping

INSTALL = "pip install lm-eval==0.4.13"

LACKING = frozenset(
    {
        "_aggregation_list",
        "_higher_is_better",
        "_metric_fn_kwargs",
        "_metric_fn_list",
        "build_all_requests",
        "build_qa_turn",
        "doc_iterator",
        "instances",
        "multiple_input_context",
        "override_metric",
        "prompt",
    }
)
"""Methods and attributes of lm-eval's task classes."""

LATER: Mapping[str, str] = {
    "aggregate": "aggregation() gives the function of each metric",
    "id": "task_name is its name",
    "process_instances": "process_results(doc, results) scores one document",
    "scorers": "filter_list and metric_list define what is scored",
}
"""Methods and attributes of the task class of releases after 0.4.13, and what 0.4.13
has instead."""


def of_later_lm_eval(name: str) -> str:
    """The message for a name that only later releases have."""
    return (
        f"{name} of a task is newer than lm-eval 0.4.13, whose task class is used "
        f"here; instead, {LATER[name]}"
    )


def needs_lm_eval(name: str) -> str:
    """Says that a name needs lm-eval itself."""
    return f"{name} needs lm-eval, which is not installed: {INSTALL}"
