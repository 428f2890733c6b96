"""Prefill: from prompt ids to keys, values and the logits of the next token.

Shared prefixes are computed once; only the longest prefix of the current path is held,
since the others are parts of it. Prompts are padded on the right, so that positions
relative to the shared prefix do not change. Long prompts are prefilled in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from pytest_evals.models.hf.forward import AttentionView, Forward, TokenCounts
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.spans import common_length


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

    After sorting, the common lengths of neighbouring prompts describe the whole prefix
    tree. Prompts with the same shared prefix are adjacent, and a prefix comes before
    its extensions. Longest first otherwise: sequences that start last finish last and
    should be short. ``prompts``: (T,) ids each, at least one. ``costs``: tokens of each
    when it is done. ``pays``: tokens that a branch must save.
    """
    members = _distinct(prompts)
    if not members:
        return []
    texts = [prompts[numbers[0]] for numbers in members]
    dear = [max(costs[i] for i in numbers) for numbers in members]
    found = []
    for node, branch in _walk(_root(texts, pays), texts, dear):
        ordered = sorted(node.texts, key=lambda i: -dear[i])
        found += [PromptGroup(tuple(members[i]), branch) for i in ordered]
    return found


def _distinct(prompts: Sequence[Ids]) -> list[list[int]]:
    """Positions of equal prompts, in the order of their ids."""
    found: dict[bytes, list[int]] = {}
    for i, prompt in enumerate(prompts):
        # Big-endian bytes have the order of the numbers.
        found.setdefault(prompt.astype(">i4").tobytes(), []).append(i)
    return [found[key] for key in sorted(found)]


def _root(texts: Sequence[Ids], pays: int) -> _Node:
    # Without the last token of either, which is always computed for its logits.
    pairs = pairwise(texts)
    shared = [min(common_length(a, b), len(a) - 1, len(b) - 1) for a, b in pairs]
    path = [_Node(0)]
    for i, (left, right) in enumerate(zip([0, *shared], [*shared, 0], strict=True)):
        _close(path, left, pays)
        if max(left, right) > path[-1].depth:
            path.append(_Node(max(left, right)))
        path[-1].texts.append(i)
    _close(path, 0, pays)
    return path[0]


def _close(path: list[_Node], depth: int, pays: int) -> None:
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


States = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, (B, heads, T, size) each."""


class Prefill(NamedTuple):
    """Result of a prefill."""

    states: States
    logits: Tensor  # (B, V) float32, of the tokens that follow them
    source: list[int]  # For each prompt that was asked for, which of the B it is
    lengths: list[int]  # Tokens of each prompt that was asked for


class _LastPrompt(NamedTuple):
    """The last prompt, kept because identical prompts follow."""

    prompt: Ids
    states: States
    logits: Tensor


@dataclass(slots=True, eq=False)
class Prefiller:
    """Runs prefills and keeps the shared prefix."""

    forward: Forward
    counters: TokenCounts
    _path: tuple[SharedPrefix, ...] = ()
    _states: States = field(default_factory=list)
    _last: _LastPrompt | None = None

    def prompts(
        self,
        prompts: Sequence[Ids],
        branch: SharedPrefix | None,
        keeps_last: bool,
        most: int = 0,
    ) -> list[Prefill]:
        """Prefill prompts as in :meth:`Decoder.join`. Returns at most two parts: the
        repeated prompt and the new ones."""
        parts = []
        last = self._last
        n_again = _n_equal(prompts, last.prompt) if last else 0
        if last is not None and n_again:
            lengths = [len(last.prompt)] * n_again
            parts.append(Prefill(last.states, last.logits, [0] * n_again, lengths))
        self._last = last if keeps_last and n_again == len(prompts) else None
        if n_again < len(prompts):
            fresh = self._fresh(prompts[n_again:], branch, most)
            parts.append(fresh)
            if keeps_last:
                self._last = _last(prompts[-1], fresh)
        return parts

    def forget(self) -> None:
        """Free the shared prefix and the last prompt."""
        self._path, self._states, self._last = (), [], None

    def _fresh(
        self, prompts: Sequence[Ids], branch: SharedPrefix | None, most: int
    ) -> Prefill:
        distinct: dict[bytes, int] = {}
        source = [distinct.setdefault(p.tobytes(), len(distinct)) for p in prompts]
        self._go_to(branch, most)
        start = len(branch.ids) if branch else 0
        rows = [np.frombuffer(key, dtype=prompts[0].dtype)[start:] for key in distinct]
        logits, states = self._read(rows, start, most)
        return Prefill(states, logits, source, [len(prompt) for prompt in prompts])

    def _go_to(self, branch: SharedPrefix | None, most: int) -> None:
        """Compute the keys and values of a shared prefix, reusing the common part of
        the previous one."""
        path = branch.path if branch else ()
        while self._path != path[: len(self._path)]:
            self._path = self._path[:-1]
        for step in path[len(self._path) :]:
            start = len(self._path[-1].ids) if self._path else 0
            _, self._states = self._read([step.ids[start:]], start, most)
            self._path = (*self._path, step)
        if not path:
            self._states = []

    def _read(
        self, rows: Sequence[Ids], start: int, most: int
    ) -> tuple[Tensor, States]:
        """Prefill rows after ``start`` cached tokens; a single row in chunks of
        ``most`` tokens, if not 0. Returns (B, V) float32 logits after each row, and the
        states of both together."""
        width = max(len(row) for row in rows)
        ids = np.zeros((len(rows), width), dtype=np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        cache: Any = DynamicCache()
        for layer, (keys, values) in enumerate(self._states if start else ()):
            shape = (len(rows), -1, -1, -1)
            keys, values = keys[:, :, :start], values[:, :, :start]
            cache.update(keys.expand(shape), values.expand(shape), layer)
        step = most if most and len(rows) == 1 else width
        last = (width - 1) // step * step
        for begin in range(0, last, step):
            part = torch.from_numpy(ids[:, begin : begin + step])
            self.forward.remember(part, self._after(start + begin, part, cache))
        part = torch.from_numpy(ids[:, last:])
        places = [i * part.shape[1] + len(row) - 1 - last for i, row in enumerate(rows)]
        view = self._after(start + last, part, cache)
        logits = self.forward.logits(part, torch.tensor(places), view)
        states = [(layer.keys, layer.values) for layer in cache.layers]
        if not states or states[0][0].shape[-2] != start + width:
            raise TypeError("this model keeps no keys and values of each token")
        self.counters.add(len(rows) * width, sum(map(len, rows)))
        return logits, states

    def _after(self, n_before: int, ids: Tensor, cache: Any) -> AttentionView:
        """Attention view of rows that follow ``n_before`` cached tokens."""
        n_rows, width = ids.shape
        mask = torch.ones((n_rows, n_before + width), dtype=torch.long)
        positions = torch.arange(n_before, n_before + width).expand(n_rows, -1)
        return self.forward.after(cache, mask, positions)


def _n_equal(prompts: Sequence[Ids], prompt: Ids) -> int:
    for i, one in enumerate(prompts):
        if not np.array_equal(one, prompt):
            return i
    return len(prompts)


def _last(prompt: Ids, read: Prefill) -> _LastPrompt:
    """The last prompt of a prefill, copied out of its batch."""
    row = slice(read.source[-1], read.source[-1] + 1)
    n = len(prompt)
    states = [(k[row, :, :n].clone(), v[row, :, :n].clone()) for k, v in read.states]
    return _LastPrompt(prompt, states, read.logits[row].clone())
