"""Order of prompts in which common prefixes are adjacent, so that an engine or a server
finds them in its prefix cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BLOCK = 64
"""Characters, or bytes of token ids, that prefixes are compared by: 16 tokens, which is
the block of vLLM's cache on GPUs."""


def prefix_order(prompts: Sequence[str | bytes]) -> list[int]:
    """Positions of the prompts as a walk through their tree of blocks. Branches are in
    the order of their first prompt, so that documents remain in order where they share
    nothing."""
    nodes: dict[tuple[int, Any], int] = {}
    keys = []
    for prompt in prompts:
        node, key = -1, []
        for start in range(0, len(prompt), BLOCK):
            edge = (node, prompt[start : start + BLOCK])
            node = nodes.setdefault(edge, len(nodes))
            key.append(node)
        keys.append(key)
    return sorted(range(len(prompts)), key=keys.__getitem__)
