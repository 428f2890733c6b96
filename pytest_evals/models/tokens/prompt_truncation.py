"""Truncation of prompts to the context window."""

from __future__ import annotations

from typing import NamedTuple

from pytest_evals.core.request import FITTING, Generate
from pytest_evals.models.tokens.request_encoder import InvalidRequestError


class PromptBudget(NamedTuple):
    """Split of the context window between prompt and completion."""

    n_prompt: int  # Tokens of the prompt that are kept: its last ones
    max_tokens: int  # Most new tokens


def fit_prompt(
    request: Generate, n_prompt: int, max_length: int
) -> PromptBudget | InvalidRequestError:
    """Tokens of the prompt to keep and the maximum of new tokens, or an error.

    The prompt is truncated on the left to leave room for ``max_tokens`` (lm-eval
    0.4.13, ``HFLM.generate_until``). If the limit is a default, the completion gets the
    remaining window instead.

    Args:
        n_prompt: Tokens of its prompt.
        max_length: Tokens of the window.
    """
    max_tokens, options = request.max_tokens, dict(request.options)
    if max_tokens < 1:
        return InvalidRequestError(f"max_tokens is {max_tokens}; it must be 1 or more")
    if options.get(FITTING):
        max_tokens = min(max_tokens, max(1, max_length - n_prompt))
    if max_tokens >= max_length:
        return InvalidRequestError(
            f"an answer of up to {max_tokens} tokens leaves no room for a "
            f"prompt in the model's window of {max_length}"
        )
    kept = min(n_prompt, max_length - max_tokens)
    # lm-eval cuts the prompt for the one limit and ends the text at the other.
    if limit := options.get("max_length"):
        max_tokens = min(limit, max_length) - kept
    if max_tokens < 1:
        return InvalidRequestError(
            f"max_length is {limit}, and the prompt has {kept} tokens"
        )
    return PromptBudget(kept, max_tokens)
