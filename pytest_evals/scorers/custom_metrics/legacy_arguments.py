"""Compatibility with earlier releases of lighteval, whose functions have arguments such
as ``golds`` and ``predictions`` instead of a document and a response."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.scorers.custom_metrics.response import ModelResponse

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
"""Argument → its value."""


def legacy_call_arguments(
    function: Any, doc: Doc, response: ModelResponse
) -> dict[str, Any] | None:
    """Return the arguments of a function of an earlier release; ``None`` for a function
    of document and response."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    names = set(parameters)
    if not names & set(_OLD) or names & {"doc", "model_response", "response"}:
        return None
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    given = {name: _OLD[name](doc, response) for name in names & set(_OLD)}
    if takes_all and not names & {"docs", "responses"}:
        unnamed = set(_OLD) - names - {"docs", "responses"}
        if not doc.choices:
            unnamed.discard("golds")  # references are optional here
        given |= {name: _OLD[name](doc, response) for name in unnamed}
    return given


_READ: Mapping[str, str] = {
    "argmax_logits_eq_gold_list": "argmax_logits_eq_gold",
    "choices_logprob": "logprobs",
    "choices_tokens": "output_tokens",
    "logprobs": "logprobs",
    "predictions": "text",
    "target_tokens": "output_tokens",
    "unconditioned_logprob": "unconditioned_logprobs",
}
"""Argument → field of a response."""


def legacy_inputs(
    first: Any, second: Any, named: Mapping[str, Any]
) -> tuple[Doc, ModelResponse]:
    """Convert arguments of an earlier release to a document and a response. Raises
    TypeError if the arguments do not describe a response.

    Args:
        first: The first positional argument: references, or a document.
        second: The second one: predictions, or a response.
        named: Keyword arguments. Unknown ones are ignored, as in earlier releases.
    """
    given = dict(named)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        given |= {"golds": first, "predictions": second}
        first = second = None
    doc = given.get("formatted_doc") if first is None else first
    read = {_READ[name]: given[name] for name in _READ if given.get(name) is not None}
    if second is None and not read:
        raise TypeError(
            "compute() expects doc and model_response, or the arguments of earlier "
            f"releases such as golds and predictions, not {', '.join(given) or 'none'}"
        )
    response = ModelResponse(**read) if second is None else second
    return _legacy_document(doc, given, len(response.logprobs)), response


def _legacy_document(doc: Doc | None, given: Mapping[str, Any], n: int) -> Doc:
    """Return a document with the references or correct choices of the arguments.
    Without a document, a new one has ``n`` choices, all of them correct."""
    if doc is None:
        doc = Doc(query="", choices=[""] * n, gold_index=list(range(n)))
    if given.get("golds") is not None:
        golds = list(given["golds"])
        return replace(doc, choices=golds, gold_index=list(range(len(golds))))
    if given.get("gold_ixs") is not None:
        return replace(doc, gold_index=list(given["gold_ixs"]))
    return doc
