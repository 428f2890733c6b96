"""Responses of a model to a document: lighteval's ``ModelResponse`` (0.13.0), and the
arguments of functions of its earlier releases, such as ``golds`` and ``predictions``
instead of a document and a response."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError


@dataclass(slots=True, kw_only=True)
class ModelResponse:
    """The responses to all requests of one document. Not frozen, because custom metrics
    may modify it."""

    input: Any = None
    input_tokens: Sequence[int] = ()
    text: Sequence[str] = ()  # generated texts, one per sample
    output_tokens: Sequence[Sequence[int]] = ()
    """Tokens of each text or choice; ranges of the same length if only their number is
    known."""
    text_post_processed: Sequence[str] | None = None
    """The texts without reasoning; ``None`` if nothing was removed."""
    reasonings: Sequence[str | None] = ()
    logprobs: Sequence[float] = ()
    """Log-probabilities in nats, of each choice or of the whole text."""
    argmax_logits_eq_gold: Sequence[bool] = ()
    """For each choice, whether greedy decoding generates it."""
    logits: Any = None  # never set by the built-in models
    unconditioned_logprobs: Sequence[float] | None = None
    """Log-probability of each choice after the document's ``unconditioned_query``;
    ``None`` if not requested."""
    truncated_tokens_count: int = 0  # number of truncated tokens
    padded_tokens_count: int = 0  # always 0
    judge_replies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Name of a metric → replies of its judges, in order."""

    def __post_init__(self) -> None:
        """Convert arrays to lists."""
        for name in ("logprobs", "argmax_logits_eq_gold", "unconditioned_logprobs"):
            given = getattr(self, name)
            if hasattr(given, "tolist"):
                setattr(self, name, given.tolist())

    @property
    def final_text(self) -> list[str]:
        """Return the texts to score, without reasoning if it was removed."""
        if self.text_post_processed is not None:
            return list(self.text_post_processed)
        return list(self.text)


def response_of(
    output_type: str,
    filtered: Sequence[Any],
    everything: Sequence[Sequence[Any]] | None = None,
    n_tokens: Sequence[int] = (),
) -> ModelResponse:
    """Return the responses to a document's requests for metrics. Raises DocumentError
    if the filter pipeline returned values of a wrong type.

    Args:
        filtered: Output of the filter pipeline, one per request.
        everything: All responses to each request, if unfiltered.
        n_tokens: Number of tokens of the first response to each request.
    """
    tokens = [range(n) for n in n_tokens]
    if output_type == "generate_until":
        given = everything[0] if everything else filtered[0]
        return ModelResponse(text=_texts(given), output_tokens=tokens)
    if output_type == "loglikelihood_rolling":
        return ModelResponse(logprobs=list(filtered), output_tokens=tokens)
    if not all(isinstance(one, list | tuple) and len(one) == 2 for one in filtered):
        raise DocumentError(
            "the filter pipeline must return (log-probability, greedy) pairs, got "
            f"{filtered!r:.200}"
        )
    return ModelResponse(
        logprobs=[logprob for logprob, _ in filtered],
        argmax_logits_eq_gold=[greedy for _, greedy in filtered],
        output_tokens=tokens,
    )


def _texts(given: Any) -> list[str]:
    texts = list(given) if isinstance(given, list | tuple) else [given]
    for text in texts:
        if not isinstance(text, str):
            raise DocumentError(
                f"the filter pipeline must return strings, got {text!r:.200}; add a "
                "fallback to its last step"
            )
    return texts


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
    """Convert arguments of an earlier release to a document and a response: references
    or a document, predictions or a response, and keyword arguments, of which unknown
    ones are ignored, as in earlier releases. Raises TypeError if the arguments do not
    describe a response."""
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
