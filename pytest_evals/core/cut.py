"""A request as the tokens that a model would read."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pytest_evals.core.request import Prompt, Request


class TokenTexts(NamedTuple):
    """The texts of a request's tokens, special tokens included.

    Tokens that make up one character together stand together.

    Args:
        context: What is read only.
        continuation: What is scored; empty for a text that is to be generated.
        n_context: Tokens of the context.
        n_continuation: Tokens that are scored.
    """

    context: tuple[str, ...]
    continuation: tuple[str, ...]
    n_context: int
    n_continuation: int


class Cutter(Protocol):
    """A model's tokenizer, with the model's rules for special tokens."""

    def cut(self, request: Request) -> TokenTexts:
        """The tokens of a request, before anything is cut off for lack of room.

        Raises:
            DocumentError: It cannot be asked.
        """
        ...

    def render(self, prompt: Prompt) -> str:
        """The text of a prompt; the same that the model would get.

        Raises:
            DocumentError: There is no template, or it refuses the chat.
        """
        ...
