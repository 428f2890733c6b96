"""The tokens of a request as strings."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pytest_evals.core.request import Prompt, Request


class TokenStrings(NamedTuple):
    """The strings of a request's tokens, special tokens included.

    Tokens that only form a character together are one string."""

    context: tuple[str, ...]  # tokens that are not scored
    continuation: tuple[str, ...]
    """Tokens that are scored; empty for a generation request."""
    n_context: int
    n_continuation: int


class RequestTokenizer(Protocol):
    """A model's tokenizer, with the model's rules for special tokens."""

    def token_strings(self, request: Request) -> TokenStrings:
        """Return the tokens of a request before truncation.

        Raises:
            DocumentError: The request cannot be encoded.
        """
        ...

    def render(self, prompt: Prompt) -> str:
        """Return the prompt as rendered for the model.

        Raises:
            DocumentError: There is no chat template, or it raises an error for the
                chat.
        """
        ...
