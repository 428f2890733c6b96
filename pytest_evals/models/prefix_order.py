"""Order of prompts in which common prefixes are adjacent, so that an engine or a server
finds them in its prefix cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_evals.core.key import prompt_of
from pytest_evals.core.request import Request

BLOCK = 64
"""Characters, or bytes of token ids, that prefixes are compared by: 16 tokens, which is
the block of vLLM's cache on GPUs."""


def prefix_order(prompts: Sequence[str | bytes]) -> list[int]:
    """Positions of the prompts as a walk through their tree of blocks. Branches are in
    the order of their first prompt, so that documents remain in order where they share
    nothing."""
    nodes: dict[tuple[int, Any], int] = {}
    keys: list[list[int]] = []
    last: str | bytes | None = None
    for prompt in prompts:
        if prompt == last:
            keys.append(keys[-1])
            continue
        last, node = prompt, -1
        key: list[int] = []
        for start in range(0, len(prompt), BLOCK):
            edge = (node, prompt[start : start + BLOCK])
            node = nodes.setdefault(edge, len(nodes))
            key.append(node)
        keys.append(key)
    return sorted(range(len(prompts)), key=keys.__getitem__)


def prompt_text(request: Request) -> str:
    """The text of a request's prompt, for comparison with other prompts."""
    prompt = prompt_of(request)
    if isinstance(prompt, str):
        return prompt
    return "".join(f"{message.role}\0{message.content}\0" for message in prompt)


def shared_characters(one: str, other: str) -> int:
    """Length of the common prefix of two strings."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
