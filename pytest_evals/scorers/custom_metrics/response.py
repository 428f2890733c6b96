"""Responses of a model to a document: lighteval's ``ModelResponse`` (0.13.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.errors import DocumentError

__all__ = ["ModelResponse", "response_of"]


@dataclass(slots=True, kw_only=True)
class ModelResponse:
    """The responses to all requests of one document.

    Not frozen, because custom metrics may modify it.

    Args:
        input: The prompt.
        input_tokens: Tokens of the prompt.
        text: Generated texts, one per sample.
        output_tokens: Tokens of each text or choice; ranges of the same length if only
            their number is known.
        text_post_processed: The texts without reasoning; ``None`` if nothing was
            removed.
        reasonings: Reasoning, one per sample.
        logprobs: Log-probabilities in nats, of each choice or of the whole text.
        argmax_logits_eq_gold: For each choice, whether greedy decoding generates it.
        logits: Never set by the built-in models.
        unconditioned_logprobs: Log-probability of each choice after the document's
            ``unconditioned_query``; ``None`` if not requested.
        truncated_tokens_count: Number of truncated tokens.
        padded_tokens_count: Always 0.
        judge_replies: Name of a metric → replies of its judges, in order.
    """

    input: Any = None
    input_tokens: Sequence[int] = ()
    text: Sequence[str] = ()
    output_tokens: Sequence[Sequence[int]] = ()
    text_post_processed: Sequence[str] | None = None
    reasonings: Sequence[str | None] = ()
    logprobs: Sequence[float] = ()
    argmax_logits_eq_gold: Sequence[bool] = ()
    logits: Any = None
    unconditioned_logprobs: Sequence[float] | None = None
    truncated_tokens_count: int = 0
    padded_tokens_count: int = 0
    judge_replies: Mapping[str, Sequence[str]] = field(default_factory=dict)

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
