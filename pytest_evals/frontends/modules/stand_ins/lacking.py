"""What lm-eval has and its stand-ins have not, and how that is said."""

from __future__ import annotations

__all__ = ["INSTALL", "LACKING", "needs_lm_eval"]

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


def needs_lm_eval(name: str) -> str:
    """Says that a name needs lm-eval itself."""
    return f"{name} needs lm-eval, which is not installed: {INSTALL}"
