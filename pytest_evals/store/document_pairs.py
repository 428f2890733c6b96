"""The documents of two runs in pairs, or the reasons why they are not comparable.

Documents are paired by the hash of their row, else by prompt, target and choices, else
by id. Those are compared whose prompts, targets, choices and fields that scoring reads
equal those of the baseline; other fields of the rows may differ.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from operator import not_
from typing import Any, Generic, NamedTuple, TypeVar

from pytest_evals.core.comparison import DocumentChange
from pytest_evals.core.doc import field_faults, reads_of
from pytest_evals.core.reference import (
    Answers,
    ComparedValues,
    Overlap,
    Reference,
    logprobs_in,
)
from pytest_evals.core.top_logprobs import compact
from pytest_evals.errors import plural, suggestion
from pytest_evals.store.run_settings import (
    Row,
    Side,
    environment_notes,
    is_sample,
    n_selected,
    setting_changes,
)

T = TypeVar("T")
Pair = tuple[Row, Row]

MOST_NAMED = 4


def firsts(rows: Sequence[Row]) -> list[Row]:
    """Return the first row of each document: filters have one each."""
    return [*{row["doc_id"]: row for row in reversed(rows)}.values()][::-1]


def changed_documents(
    task: str, ids: Collection[str], before: Side, now: Side
) -> tuple[DocumentChange, ...]:
    """Return the changes of documents that are in both runs."""
    pairs = pair_documents(before.rows.get(task, ()), now.rows.get(task, ()))
    return tuple(
        document_change(task, old, row)
        for old, row in complete(pairs)
        if str(row.get("id")) in ids
    )


def refer(name: str, task: str, before: Side, now: Side, *, fix: str = "") -> Reference:
    """Return the baseline's values for the documents of a task. ``fix``: how to get
    another baseline; empty if a run of pytest saves it."""
    if task not in before.rows:
        why = f"it has no task {task!r}{suggestion(task, [*before.rows])}"
        return replace(_refused(name, why, fix), is_new=True)
    partial = before.results.get("partial")
    if partial:
        return _refused(name, f"it is a partial run ({partial})", fix)
    if faults := [*setting_changes(task, before, now)]:
        return _refused(name, "; ".join(faults), fix)
    rows = before.rows[task]
    old = sorted(firsts(rows), key=lambda row: row["doc_id"])
    pairing = pairing_of(task, before, now)
    position = {one["doc_id"]: row["doc_id"] for one, row in pairing.same}
    repeats: dict[str, dict[int, Answers]] = {}
    compared: dict[int, ComparedValues] = {}
    for row in rows:
        at = position.get(row["doc_id"])
        if at is not None and _counts(row):
            for key, answers in _repeats(row):
                repeats.setdefault(key, {})[at] = answers
            if at not in compared:
                top = compact(row.get("top_logprobs"))
                compared[at] = ComparedValues({}, logprobs_in(row), top)
            filters = {**compared[at].answers, **answers_of([row])}
            compared[at] = compared[at]._replace(answers=filters)
    notes = environment_notes(before, now)
    rest = {}
    if is_sample(task, before, now):
        others = {row["doc_id"]: row["doc_id"] for row in old}
        for one in position:
            del others[one]
        found = values_by_key(rows, others)
        rest = {key: [*values.values()] for key, values in found.items()}
    return Reference(
        baseline=name,
        values=values_by_key(rows, position),
        rest=rest,
        n=len(old),
        overlap=pairing.overlap if pairing.changes else None,
        repeats=repeats,
        compared=compared,
        notes=notes,
        fix=fix,
    )


def answers_of(rows: Iterable[Row]) -> dict[str, str]:
    """Return the answer of a document for each filter, if it is stored."""
    given = ((row.get("filter"), row.get("answer")) for row in rows)
    return {str(name): str(answer) for name, answer in given if answer is not None}


def _refused(name: str, why: str, fix: str) -> Reference:
    fix = fix or f"--evals-save-baseline={name} makes a new one"
    fault = f"baseline {name!r} is not comparable: {why}; {fix}"
    return Reference(baseline=name, fault=fault)


def _counts(row: Row) -> bool:
    return row.get("status") in ("scored", "unscored") and not row.get("excluded")


def values_by_key(
    rows: Iterable[Row], positions: Mapping[int, int]
) -> dict[str, dict[int, Any]]:
    """Return the values of each metric, by position, without documents that do not
    count. ``rows``: the documents of a task, with a row for each filter. ``positions``:
    ``doc_id`` of a document → its position in this run's dataset."""
    values: dict[str, dict[int, Any]] = {}
    for row in rows:
        at = positions.get(row["doc_id"])
        if at is None or not _counts(row):
            continue
        for metric in row.get("metrics") or ():
            key = f"{metric},{row.get('filter')}"
            value = row.get(key, row.get(metric))
            if value is not None:  # an unscored document may have other metrics
                values.setdefault(key, {})[at] = value
    return values


def _repeats(row: Row) -> Iterator[tuple[str, Answers]]:
    """Yield key and answers of each metric of a row that has repeated answers."""
    for metric, each in (row.get("repeats") or {}).items():
        answers = Answers(tuple(each["values"]), tuple(each["answers"]))
        yield f"{metric},{row.get('filter')}", answers


def pair_documents(
    old: Iterable[Row], new: Iterable[Row]
) -> list[tuple[Row | None, Row]]:
    """Pair each document of the new run with one of the old run or ``None``; equal
    documents in order."""
    left, rows = dict(enumerate(old)), [*new]
    found: dict[int, Row] = {}
    for key in (_content, _asked_with_id, _asked, lambda row: row.get("id")):
        waiting: dict[Hashable, deque[int]] = {}
        for number, row in left.items():
            if (content := key(row)) is not None:
                waiting.setdefault(content, deque()).append(number)
        for at, row in enumerate(rows if waiting else ()):
            if at not in found and (numbers := waiting.get(key(row))):
                found[at] = left.pop(numbers.popleft())
        if not left:
            break
    return [(found.get(at), row) for at, row in enumerate(rows)]


class RowsByContent(Generic[T]):
    """Values of documents of another run: found by the hash of their row, else by
    prompt, target and choices."""

    def __init__(self, rows: Iterable[tuple[Row, T]]) -> None:
        """``rows``: each document with the value that is kept of it."""
        self._values: dict[int, T] = {}
        self._places: dict[Hashable, deque[int]] = defaultdict(deque)
        for place, (row, value) in enumerate(rows):
            self._values[place] = value
            for key in _identities(row):
                self._places[key].append(place)

    def all(self, row: Row) -> list[T]:
        """Return the values of all documents with equal content."""
        for key in _identities(row):
            if key in self._places:
                return [self._values[place] for place in self._places[key]]
        return []

    def take(self, row: Row) -> T | None:
        """Return each value once: equal documents are paired in order."""
        for key in _identities(row):
            waiting = self._places.get(key)
            while waiting:
                place = waiting.popleft()
                if place in self._values:
                    return self._values.pop(place)
        return None


def _identities(row: Row) -> Iterator[Hashable]:
    """Yield the keys of a document, the most reliable first."""
    yield from (one for one in (_content(row), _asked(row)) if one is not None)


def _content(row: Row) -> Hashable:
    return row.get("doc_hash")


def _asked(row: Row) -> Hashable:
    """Hashes of prompt, target and choices; ``None`` in a run of an earlier version."""
    found = tuple(map(row.get, ("choices_hash", "target_hash", "prompt_hash")))
    return None if None in found else found


def _asked_with_id(row: Row) -> Hashable:
    asked = _asked(row)
    return None if asked is None else (asked, row.get("id"))


def complete(pairs: Iterable[tuple[Row | None, Row]]) -> Iterator[Pair]:
    """Yield the documents that are in both runs."""
    return ((old, new) for old, new in pairs if old is not None)


class Pairing(NamedTuple):
    """The documents of a task in two runs."""

    same: Sequence[Pair]  # Pairs with equal content
    both: Sequence[Pair]  # All pairs
    changes: tuple[str, ...]  # Added, removed and changed documents, as text
    n_before: int
    """Documents of the baseline, of a sampled or partial run those that it has sampled
    or run."""

    @property
    def overlap(self) -> Overlap:
        """The shared documents by their position in the later run."""
        shared = frozenset(row["doc_id"] for _, row in self.same)
        return Overlap(self.n_before, shared, self.changes)


def pairing_of(task: str, before: Side, now: Side) -> Pairing:
    """Pair the documents of a task; documents with another prompt, target or choices,
    or another field that scoring reads, have changed."""
    old, new = firsts(before.rows[task]), firsts(now.rows.get(task, ()))
    pairs = pair_documents(old, new)
    both = [*complete(pairs)]
    changed = _changed(both, now)
    lost = {id(row) for rows in changed.values() for row in rows}
    same = [pair for pair in both if id(pair[1]) not in lost]
    added = [row for one, row in pairs if one is None]
    removed: list[Row] = []
    # A partial run may still get the others.
    if not is_sample(task, before, now) and len(new) >= (n_selected(now, task) or 0):
        paired = {id(one) for one, _ in both}
        removed = [row for row in old if id(row) not in paired]
    changes = [
        f"{counted([row.get('id') for row in rows])} {message}"
        for message, rows in (("added", added), ("removed", removed))
        if rows
    ]
    changes += [
        f"{message}: {counted([row.get('id') for row in rows])}"
        for message, rows in changed.items()
    ]
    return Pairing(same, both, tuple(changes), len(both) + len(removed))


def _changed(pairs: Sequence[Pair], now: Side) -> dict[str, list[Row]]:
    """What has changed in documents of both runs → these documents, each once."""
    found: dict[str, list[Row]] = {}
    for message, field in (("prompt", "prompt_hash"), ("target", "target_hash")):
        differs = [old.get(field) != row.get(field) for old, row in pairs]
        if any(differs):
            found[f"the {message} has changed"] = [
                row for _, row in compress(pairs, differs)
            ]
            pairs = [*compress(pairs, map(not_, differs))]
    other = [pair for pair in pairs if _content(pair[0]) != _content(pair[1])]
    if other:
        reads = reads_of(row for pair in pairs for row in pair)
        found |= _row_changes(other, reads, now)
    return found


def _row_changes(
    pairs: Sequence[Pair], reads: Collection[str], now: Side
) -> dict[str, list[Row]]:
    """Differences in rows that scoring depends on."""
    known = [pair for pair in pairs if all("choices_hash" in row for row in pair)]
    found: dict[str, list[Row]] = {}
    if len(known) < len(pairs):
        found[_UNRECORDED] = [row for _, row in pairs]
        return found
    choices = [new for old, new in known if old["choices_hash"] != new["choices_hash"]]
    if choices:
        found["the choices or references have changed"] = choices
    for old, new in known if reads else ():
        for fault in field_faults(old, new, reads, now.doc):
            found.setdefault(fault, []).append(new)
    return found


_UNRECORDED = (
    "the data has changed, in a baseline that does not record the fields that scoring "
    "reads"
)


def counted(ids: Sequence[object]) -> str:
    """``12 documents (a, b, c, d, …)``."""
    named = ", ".join(map(str, ids[:MOST_NAMED]))
    more = ", …" if len(ids) > MOST_NAMED else ""
    return f"{plural(len(ids), 'document')} ({named}{more})"


def document_change(task: str, old: Row, new: Row) -> DocumentChange:
    """Return a document of both runs with its answers."""
    arguments = new.get("arguments") or {}
    target = str(new.get("target", ""))
    right = (arguments.get(f"gen_args_{target}") or {}).get("arg_1")
    return DocumentChange(
        task=task,
        id=str(new.get("id")),
        prompt=(arguments.get("gen_args_0") or {}).get("arg_0", ""),
        # Of a choice the target is a number: the text says more.
        target=right.strip() if isinstance(right, str) else target,
        before=str(old.get("answer", "")),
        now=str(new.get("answer", "")),
    )
