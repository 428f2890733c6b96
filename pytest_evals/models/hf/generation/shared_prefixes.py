"""Shared prefixes of prompts, and the order of prefills. Independent of the model.

After sorting, the common lengths of neighbouring prompts describe the whole prefix
tree. A prefix is kept if computing it once saves enough tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pytest_evals.models.tokens.encoder import Ids


@dataclass(frozen=True, slots=True, eq=False)
class SharedPrefix:
    """A prefix that is prefilled once for all prompts that start with it."""

    ids: Ids  # (P,) the whole beginning, that of its parent included
    parent: SharedPrefix | None = None  # A shorter beginning that is kept too

    @property
    def path(self) -> tuple[SharedPrefix, ...]:
        """All shared prefixes on the path to this one, which is the last."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return tuple(reversed(found))


@dataclass(frozen=True, slots=True, eq=False)
class PromptGroup:
    """Identical prompts."""

    members: tuple[int, ...]  # Their positions, in the order in which they were given
    branch: SharedPrefix | None  # Their shared prefix; at least one token follows


@dataclass(slots=True, eq=False)
class _Node:
    """A prefix of ``depth`` tokens that its prompts share.

    ``texts`` are positions among the distinct prompts, ``kept`` the longer prefixes
    that are kept. Each of both computes this prefix once if it is not kept itself.
    """

    depth: int
    texts: list[int] = field(default_factory=list)
    kept: list[_Node] = field(default_factory=list)

    @property
    def n_readers(self) -> int:
        return len(self.texts) + len(self.kept)


def prompt_groups(
    prompts: Sequence[Ids], costs: Sequence[int], pays: int
) -> list[PromptGroup]:
    """All prompts in prefill order.

    Prompts with the same shared prefix are adjacent, and a prefix comes before its
    extensions. Longest first otherwise: sequences that start last finish last and
    should be short.

    Args:
        prompts: (T,) ids each, at least one.
        costs: Tokens of each when it is done.
        pays: Tokens that a branch must save.
    """
    members = _distinct(prompts)
    if not members:
        return []
    texts = [prompts[numbers[0]] for numbers in members]
    dear = [max(costs[i] for i in numbers) for numbers in members]
    found = []
    for node, branch in _walk(_root(texts, pays), texts, dear):
        own = sorted(node.texts, key=lambda i: -dear[i])
        found += [PromptGroup(tuple(members[i]), branch) for i in own]
    return found


def _distinct(prompts: Sequence[Ids]) -> list[list[int]]:
    """Positions of equal prompts, in the order of their ids."""
    found: dict[bytes, list[int]] = {}
    for i, prompt in enumerate(prompts):
        # Big-endian bytes have the order of the numbers.
        found.setdefault(prompt.astype(">i4").tobytes(), []).append(i)
    return [found[key] for key in sorted(found)]


def _root(texts: Sequence[Ids], pays: int) -> _Node:
    """The tree of kept prefixes."""
    shared = [_n_common(a, b) for a, b in pairwise(texts)]
    path = [_Node(0)]
    for i, (left, right) in enumerate(zip([0, *shared], [*shared, 0], strict=True)):
        _close(path, left, pays)
        if max(left, right) > path[-1].depth:
            path.append(_Node(max(left, right)))
        path[-1].texts.append(i)
    _close(path, 0, pays)
    return path[0]


def _close(path: list[_Node], depth: int, pays: int) -> None:
    """Close all prefixes of the path that are longer than ``depth``."""
    while path[-1].depth > depth:
        node = path.pop()
        if path[-1].depth < depth:
            path.append(_Node(depth))
        above = path[-1]
        if (node.n_readers - 1) * (node.depth - above.depth) >= pays:
            above.kept.append(node)
        else:
            above.texts += node.texts
            above.kept += node.kept


def _walk(
    root: _Node, texts: Sequence[Ids], dear: Sequence[int]
) -> Iterator[tuple[_Node, SharedPrefix | None]]:
    """All kept nodes, parents before children, the most expensive first."""
    most: dict[_Node, int] = {}
    order = [root]
    for node in order:
        order += node.kept
    for node in reversed(order):
        most[node] = max(
            [*(dear[i] for i in node.texts), *(most[n] for n in node.kept)]
        )
    open_: list[tuple[_Node, SharedPrefix | None]] = [(root, None)]
    while open_:
        node, branch = open_.pop()
        yield node, branch
        for child in sorted(node.kept, key=lambda n: most[n]):
            ids = texts[_some_text(child)][: child.depth]
            open_.append((child, SharedPrefix(ids, branch)))


def _some_text(node: _Node) -> int:
    while not node.texts:
        node = node.kept[0]
    return node.texts[0]


def _n_common(one: Ids, other: Ids) -> int:
    """Length of the common prefix of two prompts, without the last token of either,
    which is always computed for its logits."""
    n = min(len(one), len(other))
    different = one[:n] != other[:n]
    first = int(different.argmax()) if different.any() else n
    return min(first, n - 1)
