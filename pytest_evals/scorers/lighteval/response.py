"""What a metric sees of a model's answers: lighteval's ``ModelResponse`` (0.13.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.errors import DocumentError

__all__ = ["ModelResponse", "response_of"]


@dataclass(slots=True, kw_only=True)
class ModelResponse:
    """The answers to all requests of one document.

    Not frozen, since metrics of other people may be handed one that they make up.

    Args:
        input: The prompt, where a metric wants to show it.
        input_tokens: Its tokens.
        text: Generated texts, one a sample.
        output_tokens: Tokens of each text, or of each choice. Engines that count tokens
            and do not keep them give ranges of that length.
        text_post_processed: The texts without reasoning; ``None`` where nothing was
            taken out.
        reasonings: What the model thought, one a sample.
        logprobs: Nats: one a choice, or one of the whole text.
        argmax_logits_eq_gold: Whether greedy decoding gives the choice, one a choice.
        logits: Not given by our models.
        unconditioned_logprobs: Nats of each choice after the document's
            ``unconditioned_query``; ``None`` if not requested.
        truncated_tokens_count: Tokens that did not fit into the model.
        padded_tokens_count: Always 0 here.
        judge_replies: Name of a metric → what judges have replied to it, in order.
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

    @property
    def final_text(self) -> list[str]:
        """The texts that are scored: without reasoning, where that was taken out."""
        if self.text_post_processed is not None:
            return list(self.text_post_processed)
        return list(self.text)


def response_of(
    output_type: str,
    filtered: Sequence[Any],
    everything: Sequence[Sequence[Any]] | None = None,
    n_tokens: Sequence[int] = (),
) -> ModelResponse:
    """What metrics see of the answers to a document.

    Args:
        output_type: The task's.
        filtered: What a pipeline left of the responses, one a request.
        everything: All responses to each request, where nobody filtered them.
        n_tokens: How many tokens the first response to each request has.

    Raises:
        DocumentError: The pipeline left something that is no answer.
    """
    tokens = [range(n) for n in n_tokens]
    if output_type == "generate_until":
        given = everything[0] if everything else filtered[0]
        return ModelResponse(text=_texts(given), output_tokens=tokens)
    if output_type == "loglikelihood_rolling":
        return ModelResponse(logprobs=list(filtered), output_tokens=tokens)
    if not all(isinstance(one, list | tuple) and len(one) == 2 for one in filtered):
        raise DocumentError(
            "the filter pipeline must leave (log-probability, greedy) pairs, got "
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
                f"the filter pipeline must leave texts, got {text!r:.200}; give its "
                "last step a fallback"
            )
    return texts
