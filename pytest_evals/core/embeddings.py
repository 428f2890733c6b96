"""Requests for embeddings, and the numbers in their responses."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.errors import DocumentError

EMBEDDING = "embedding"
"""The option of a :class:`~pytest_evals.core.request.Generate` whose response is the
embedding of its prompt, a text: ``data`` is a list of numbers. A model without support
returns an error, or a response without such a list."""


def embedding_request(text: str) -> Generate:
    """The request for the embedding of a text."""
    return Generate(text, max_tokens=0, options=((EMBEDDING, True),))


def is_embedding(request: Request) -> bool:
    """Whether a request is for an embedding."""
    return isinstance(request, Generate) and (EMBEDDING, True) in request.options


def embedding_of(response: Response) -> Sequence[float]:
    """The embedding in a response.

    Raises:
        DocumentError: It has no embedding.
    """
    found = response.raise_for_error().data
    is_list = isinstance(found, list) and found
    if not is_list or not all(type(one) in (float, int) for one in found):
        raise DocumentError("the model returned no embedding")
    numbers: Sequence[float] = found
    return numbers
