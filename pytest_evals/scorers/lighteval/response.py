"""What a metric sees of a model's answers: lighteval's ``ModelResponse`` (0.13.0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ModelResponse"]


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
            ``unconditioned_query``; ``None`` where that was not asked.
        truncated_tokens_count: Tokens that did not fit into the model.
        padded_tokens_count: Always 0 here.
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

    @property
    def final_text(self) -> list[str]:
        """The texts that are scored: without reasoning, where that was taken out."""
        if self.text_post_processed is not None:
            return list(self.text_post_processed)
        return list(self.text)
