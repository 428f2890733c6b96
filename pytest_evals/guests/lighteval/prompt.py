"""Few-shot examples, as in lighteval 0.13.0 (``tasks/prompt_manager.py``), and prompts
with them: plain text or chat messages.

Samplers return positions in the pool. Two differences are deliberate: a document is
never its own few-shot example, and each task has its own random generators. The default
seed of all tasks is 0, as in lighteval.

The instruction occurs once at the start, as a paragraph of plain text and without
separator in a chat. If a query begins with its instruction, the instruction is removed
from the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from pytest_evals.core.doc import Doc
from pytest_evals.core.request import Message, Prompt
from pytest_evals.errors import DocumentError, EvalsError


@dataclass(frozen=True, slots=True)
class Pool:
    """Source of few-shot examples.

    Args:
        docs: Its documents, in the order of their rows.
        positions: Position of an evaluated document → position in the pool of the
            document built from the same row; empty if the pool is a different split.
    """

    docs: Sequence[Doc]
    positions: Mapping[int, int]


class ShotSampler:
    """Selects few-shot examples for each document.

    Args:
        draw: Draws positions in the pool; called once per document, in their order.
    """

    def __init__(
        self, positions: Mapping[int, int], n: int, draw: Callable[[], Sequence[int]]
    ) -> None:
        self._positions, self._n, self._draw = positions, n, draw
        self._draws: list[Sequence[int]] = []

    def shots(self, index: int) -> tuple[int, ...]:
        """Positions in the pool for the document at a position."""
        while len(self._draws) <= index:
            self._draws.append(self._draw())
        position = self._positions.get(index)
        return tuple(at for at in self._draws[index] if at != position)[: self._n]


def sampler_of(
    selection: str | None, pool: Pool, n: int, seed: int, random: Random
) -> ShotSampler:
    """The sampler of a task.

    Args:
        selection: Name of the method; ``None`` for ``balanced``.
        n: Number of examples, at least 1.
        seed: Seed of the methods that use one order for all documents.
        random: Generator that shuffled the documents, for draws per document.

    Raises:
        EvalsError: The pool is too small.
    """
    choose, size = SELECTIONS[selection or "balanced"], len(pool.docs)
    if not isinstance(choose, int):
        order = choose(pool.docs, n, seed)
        return ShotSampler(pool.positions, n, lambda: order)
    # If the pool is the evaluated split, draw one more, to replace the document itself.
    n_drawn = n + (choose or bool(pool.positions))
    if n_drawn > size:
        raise EvalsError(
            f"{n} few-shot examples need a pool of {n_drawn} documents; it has {size}"
        )
    return ShotSampler(pool.positions, n, lambda: random.sample(range(size), n_drawn))


def _in_order(docs: Sequence[Doc], n: int, seed: int) -> list[int]:
    """Order of rows; shuffled if the seed is not 0."""
    order = list(range(len(docs)))
    if seed:
        Random(seed).shuffle(order)
    return order


def _rotated(docs: Sequence[Doc], n: int, seed: int) -> list[int]:
    """Order of rows, rotated by ``n * seed``."""
    start = (n * seed) % len(docs) if docs else 0
    return [*range(start, len(docs)), *range(start)]


def _balanced(docs: Sequence[Doc], n: int, seed: int) -> list[int]:
    """One example of each label in turn, labels of the largest groups first.

    Selects one more than ``n``, in case one of them is the document itself.
    """
    random = Random(seed)
    groups: dict[str, list[int]] = {}
    for position, doc in enumerate(docs):
        groups.setdefault(_label(doc), []).append(position)
    by_size: dict[int, list[str]] = {}
    for label in sorted(groups):
        by_size.setdefault(len(groups[label]), []).append(label)
    labels: list[str] = []
    for size in sorted(by_size, reverse=True):
        alike = by_size[size]
        random.shuffle(alike)
        labels += alike
    n_selected = min(len(docs), n + 1)
    selected: list[int] = []
    while len(selected) < n_selected:
        for label in labels:
            if groups[label] and len(selected) < n_selected:
                left = groups[label]
                selected.append(left.pop(random.randrange(len(left))))
    return selected


def _label(doc: Doc) -> str:
    if doc.fewshot_sorting_class:
        return str(doc.fewshot_sorting_class)
    golds = doc.get_golds()
    return str(golds[0]) if golds else ""


_Order = Callable[[Sequence[Doc], int, int], list[int]]

SELECTIONS: Mapping[str, _Order | int] = {
    "balanced": _balanced,
    "random": _in_order,
    "sequential": _rotated,
    "random_sampling_from_train": 0,
    "random_sampling": 1,
}
"""Name → function that orders the pool for all documents, or the number of extra
examples to draw for each document."""


def prompt_of(
    doc: Doc, system: str | None, *, as_chat: bool, multiturn: bool
) -> Prompt:
    """The prompt of a document; always a chat without few-shot examples if it has
    images.

    Args:
        as_chat: Messages instead of plain text.
        multiturn: In a chat, one pair of messages for each few-shot example; otherwise
            everything but the system prompt is one message.
    """
    if doc.images:
        front = (system or "") + (doc.instruction or "")
        messages = [Message("system", front)] if front else []
        return (*messages, Message("user", _query(doc)))
    if not as_chat:
        return plain(doc, system)
    if multiturn:
        return chat(doc, system)
    messages = [Message("system", system)] if system is not None else []
    return (*messages, Message("user", plain(doc, None)))


def plain(doc: Doc, system: str | None) -> str:
    """The prompt as plain text."""
    parts = [text for text in (system, doc.instruction) if text is not None]
    parts += [f"{_query(shot)} {_answer(shot).strip()}" for shot in doc.fewshot_samples]
    return "\n\n".join([*parts, _query(doc)])


def chat(doc: Doc, system: str | None) -> tuple[Message, ...]:
    """The prompt as messages; the last one is the user's."""
    messages = [Message("system", system)] if system is not None else []
    instruction = doc.instruction or ""
    for shot in doc.fewshot_samples:
        messages.append(Message("user", instruction + _query(shot)))
        messages.append(Message("assistant", _answer(shot)))
        instruction = ""
    return (*messages, Message("user", instruction + _query(doc)))


def _query(doc: Doc) -> str:
    if doc.instruction is None or not doc.query.startswith(doc.instruction):
        return doc.query
    return doc.query[len(doc.instruction) :].strip()


def _answer(shot: Doc) -> str:
    """The first correct answer of a few-shot example."""
    golds = shot.get_golds()
    if not golds:
        raise DocumentError(
            "a few-shot example has no choices, so its answer is unknown"
        )
    if not isinstance(golds[0], str):
        raise DocumentError(
            f"the answer of a few-shot example is {golds[0]!r:.80}; expected a string"
        )
    return golds[0]
