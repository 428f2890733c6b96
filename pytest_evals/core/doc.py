"""A document of a task, and its row, which records the fields that scoring reads.

The fields, their order and their defaults are lighteval's (0.13.0,
``lighteval.tasks.requests.Doc``), so that its task modules run unchanged. ``row`` and
``target`` are additions and come last. It is the only record that is not frozen,
because those modules write to it; all other code treats it as frozen.

A comparison with a baseline depends only on the fields that scoring reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from pytest_evals.errors import GoldIndexError


@dataclass(slots=True)
class Doc:
    """One document: its question, its choices and which of them are correct."""

    query: str
    """The question as the model gets it, without few-shot examples and instruction. The
    whole text for a rolling log-likelihood."""
    choices: list[str]
    """Possible answers, without delimiter; for generation the reference answers."""
    gold_index: int | list[int]
    """Position of the correct choice, or a list of positions if several are correct."""
    instruction: str | None = None
    """Text in front of the prompt, separate from the query."""
    images: list[Any] | None = None  # PIL images, for vision models
    specific: dict[str, Any] | None = None  # values that the task keeps for its metrics
    unconditioned_query: str | None = None
    """The query without content, for PMI normalisation."""
    original_query: str | None = None  # the text before any change
    id: str = ""  # unique within its task
    task_name: str = ""  # name of its task
    fewshot_samples: list[Doc] = field(default_factory=list)
    """The few-shot examples, as documents."""
    sampling_methods: list[Any] = field(default_factory=list)
    """Kinds of requests that are made for it."""
    fewshot_sorting_class: str | None = None  # label for balanced few-shot sampling
    generation_size: int | None = None  # maximum number of new tokens
    stop_sequences: list[str] | None = None  # stop strings
    use_logits: bool = False  # whether logits are requested
    num_samples: int = 1  # generations per prompt
    generation_grammar: Any = None  # grammar that constrains the generation
    row: Mapping[str, Any] = field(default_factory=dict)
    """Its row of the dataset, after ``process_docs``."""
    target: Any = None
    """The target of the task file, before its conversion to choices and positions."""

    @property
    def target_text(self) -> str:
        """The correct answers as text, of choices too; without one, the target."""
        try:
            golds = self.get_golds()
        except IndexError:
            golds = []
        if golds:
            return " | ".join(map(str, golds))
        return "" if self.target is None else str(self.target)

    def get_golds(self) -> list[str]:
        """The correct answers as strings; a choice that is a list contributes all its
        synonyms.

        Raises:
            GoldIndexError: A gold index is beyond the choices.
        """
        golds: list[str] = []
        for index in as_list(self.gold_index):
            try:
                golds.extend(as_list(self.choices[index]))
            except IndexError:
                n = f"{len(self.choices)} choices" if self.choices else "no choices"
                message = f"gold_index is {index}, and the document has {n}"
                raise GoldIndexError(message) from None
        return golds


def as_list(value: Any) -> list[Any]:
    """A list unchanged, a tuple as a list, any other value as a list of one."""
    if isinstance(value, list):
        return value
    return list(value) if isinstance(value, tuple) else [value]


ALL = "*"  # all fields, if code reads the row as a whole
_SHORT = 16


class WatchedRow(dict[str, Any]):
    """A row that records which of its fields are read.

    It is a dict, since the code of task files expects one. Code that lists, compares or
    converts the whole row reads all fields.
    """

    __slots__ = ("is_handed", "reads", "scored")

    def __init__(self, row: Mapping[str, Any], reads: set[str] | None = None) -> None:
        """Copy a row. ``reads``: set that collects names of fields, shared by
        copies."""
        super().__init__(row if type(row) is dict else unwatched(row))
        self.reads: set[str] = set() if reads is None else reads
        self.is_handed = False  # whether the row was passed to code of a task file
        self.scored: tuple[str, ...] | None = None
        """The fields that scoring has read; ``None`` if it did not get the row."""

    def end_of_scoring(self) -> None:
        """Store the fields read so far: later readers, such as gates, do not score."""
        if self.reads or self.is_handed:
            self.scored = (ALL,) if ALL in self.reads else tuple(sorted(self.reads))

    def copy(self) -> WatchedRow:
        """A copy whose reads count as reads of this row."""
        return WatchedRow(self, self.reads)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> WatchedRow:
        """A copy whose reads count as reads of this row."""
        return WatchedRow(deepcopy(unwatched(self), memo), self.reads)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a plain dict."""
        self.reads.add(ALL)
        return dict, (unwatched(self),)


def _recording(name: str, *, is_whole: bool) -> Callable[..., Any]:
    """A method of dict that records the field of its first argument, or all fields."""
    plain = getattr(dict, name)

    @wraps(plain)
    def method(self: WatchedRow, *arguments: Any) -> Any:
        self.reads.add(ALL if is_whole else str(arguments[0]))
        return plain(self, *arguments)

    return method


_OF_ONE_FIELD = ("__contains__", "__getitem__", "get", "pop", "setdefault")
_OF_ALL = (
    *("__eq__", "__iter__", "__ne__", "__or__", "__repr__", "__reversed__", "__ror__"),
    *("items", "keys", "popitem", "values"),
)
for _names, _is_whole in ((_OF_ONE_FIELD, False), (_OF_ALL, True)):
    for _name in _names:
        setattr(WatchedRow, _name, _recording(_name, is_whole=_is_whole))


def watch(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with an empty record of reads; an empty row is returned unchanged."""
    return WatchedRow(row) if row else row


def handed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a document's row for the code of a task file."""
    if isinstance(row, WatchedRow):
        row.is_handed = True
        return row.copy()
    return dict(row)


def like(row: Any, of: Mapping[str, Any]) -> Any:
    """Another copy of a document's row, for the code of a task file, that shares the
    record of reads of the document's row ``of``. If the copy cannot record reads, all
    fields count as read."""
    if not isinstance(of, WatchedRow):
        return row
    of.is_handed = True
    if type(row) is dict:
        return WatchedRow(row, of.reads)
    read_all(of)
    return row


def read_all(row: Mapping[str, Any]) -> None:
    """Record that code may read any field of a document's row."""
    if isinstance(row, WatchedRow):
        row.reads.add(ALL)


def unwatched(row: Mapping[str, Any]) -> dict[str, Any]:
    """A plain copy of a row; records no reads."""
    # Not dict.copy(), which calls the methods of a subclass.
    return dict(dict.items(row)) if isinstance(row, dict) else dict(row)


def field_hash(row: Mapping[str, Any], field: str) -> str:
    """A short hash of a field of a row of JSON values; empty if the row does not have
    it."""
    if field not in row:
        return ""
    text = json.dumps(row[field], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_SHORT]


Row = Mapping[str, Any]


def reads_of(rows: Iterable[Row]) -> frozenset[str]:
    """The union of the fields that scoring has read in these documents. If code got
    rows and no read was recorded, it may have read all fields."""
    recorded = {tuple(row["reads"]) for row in rows if row.get("reads") is not None}
    fields = frozenset(field for one in recorded for field in one)
    return fields or frozenset([ALL] if recorded else [])


def field_faults(
    old: Row,
    new: Row,
    reads: Collection[str],
    doc_of: Callable[[Row], Mapping[str, Any]] | None,
) -> Iterator[str]:
    """The differences in the fields that scoring reads, one sentence each.

    Args:
        old: A document in the samples file of a run or a baseline.
        new: The document of the later run.
        doc_of: Returns the row of the dataset for ``new``, if it has none.
    """
    doc = doc_of(new) if doc_of is not None else new.get("doc") or {}
    saved: Mapping[str, str] = old.get("fields") or {}
    if old.get("doc"):
        saved = {ALL: "", **{one: field_hash(old["doc"], one) for one in old["doc"]}}
    if ALL in reads and ALL not in saved:
        yield "the data has changed, and scoring reads whole rows, which it did not"
        return
    why = "may read, since it gets whole rows" if ALL in reads else "reads"
    for name in sorted({*doc, *saved} - {ALL} if ALL in reads else reads):
        if name not in saved and ALL not in saved:
            yield f"scoring reads the field {name!r}, which it did not"
        elif field_hash(doc, name) != saved.get(name, ""):
            yield f"the field {name!r}, which scoring {why}, has changed"
