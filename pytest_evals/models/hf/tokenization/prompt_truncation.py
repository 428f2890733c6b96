"""How much of a prompt a model's window has room for, next to the answer."""

from __future__ import annotations

from typing import NamedTuple

from pytest_evals.core.request import FITTING, Generate
from pytest_evals.models.hf.tokenization.request_encoder import InvalidRequestError


class PromptBudget(NamedTuple):
    """A request's share of the window.

    Args:
        n_prompt: Tokens of the prompt that are kept: its last ones.
        max_tokens: Most new tokens.
    """

    n_prompt: int
    max_tokens: int


def fit_prompt(
    request: Generate, n_prompt: int, max_length: int
) -> PromptBudget | InvalidRequestError:
    """The tokens of the prompt that fit, and the most new ones, or why none do.

    A prompt is cut for the answer's limit (lm-eval 0.4.13, ``HFLM.generate_until``).
    Where nobody has asked for that limit, the answer gets what the prompt leaves.

    Args:
        request: The request.
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
