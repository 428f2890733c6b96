"""Functions of earlier releases of lighteval, which take answers and references by name
and not document and response."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.scorers.lighteval.response import ModelResponse

__all__ = ["old_arguments"]

_OLD: Mapping[str, Callable[[Doc, ModelResponse], Any]] = {
    "argmax_logits_eq_gold_list": lambda doc, made: list(made.argmax_logits_eq_gold),
    "choices_logprob": lambda doc, made: list(made.logprobs[: len(doc.choices)]),
    "choices_tokens": lambda doc, made: list(made.output_tokens),
    "docs": lambda doc, made: [doc],
    "formatted_doc": lambda doc, made: doc,
    "gold_ixs": lambda doc, made: (
        doc.gold_index if isinstance(doc.gold_index, list) else [doc.gold_index]
    ),
    "golds": lambda doc, made: doc.get_golds(),
    "logprobs": lambda doc, made: list(made.logprobs),
    "predictions": lambda doc, made: made.final_text,
    "responses": lambda doc, made: [made],
    "reference_texts": lambda doc, made: [doc.query],
    "target_tokens": lambda doc, made: list(made.output_tokens),
    "unconditioned_logprob": lambda doc, made: made.unconditioned_logprobs,
}
"""Argument → what it was."""


def old_arguments(
    function: Any, doc: Doc, response: ModelResponse
) -> dict[str, Any] | None:
    """What a function of an earlier release is called with, by name; ``None`` for a
    function of document and answers."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    names = set(parameters)
    if not names & set(_OLD) or names & {"doc", "model_response", "response"}:
        return None
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    wanted = names & set(_OLD)
    if takes_all and not names & {"docs", "responses"}:
        wanted = set(_OLD) - {"docs", "responses"}
    return {name: _OLD[name](doc, response) for name in wanted}
