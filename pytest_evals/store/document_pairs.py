"""The documents of two runs in pairs, or the reasons why they are not comparable.

Documents are paired by the hash of their row, else by prompt, target and choices, else
by id. A task is compared only if its prompts, targets, choices and the fields that
scoring reads equal those of the baseline; other fields of the rows may differ.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any

from pytest_evals.core.comparison import ENVIRONMENT, DocumentChange
from pytest_evals.core.doc import field_faults, reads_of
from pytest_evals.core.reference import Answers, ComparedValues, Reference, logprobs_in
from pytest_evals.core.top_logprobs import compact
from pytest_evals.errors import suggestion

Row = Mapping[str, Any]
Pair = tuple[Row, Row]

ANSWER_KEYS = (
    "choices",
    "output_type",
    "generation_kwargs",
    "repeats",
    "filter_list",
)
"""Keys of a task file that answers depend on, in addition to the prompt, which is
hashed."""
MACHINE_KEYS = ("device", "dtype", "torch_version", "transformers_version")
BATCH_KEYS = ("batch_size", "batch_tokens")
"""Model arguments that change numbers only by rounding."""
MOST_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two runs.

    Args:
        results: Content of its ``results.json``.
        rows: Documents of each task, as in samples files.
        doc: Returns the dataset row of a document, if it is not in ``rows``.
    """

    results: Mapping[str, Any]
    rows: Mapping[str, Sequence[Row]]
    doc: Callable[[Row], Mapping[str, Any]] | None = None

    def of(self, section: str, task: str) -> Any:
        """Return an entry of a section of the results, ``None`` if it is missing."""
        found = self.results.get(section)
        return found.get(task) if isinstance(found, dict) else None


def firsts(rows: Sequence[Row]) -> list[Row]:
    """Return the first row of each document: filters have one each."""
    return [*{row["doc_id"]: row for row in reversed(rows)}.values()][::-1]


def changed_documents(
    task: str, ids: Collection[str], before: Side, now: Side
) -> tuple[DocumentChange, ...]:
    """Return the changes of documents that are in both runs.

    Args:
        ids: Ids of the documents in this run.
        before: The baseline.
        now: This run.
    """
    pairs = pair_documents(before.rows.get(task, ()), now.rows.get(task, ()))
    return tuple(
        document_change(task, old, row)
        for old, row in complete(pairs)
        if str(row.get("id")) in ids
    )


def refer(name: str, task: str, before: Side, now: Side) -> Reference:
    """Return the baseline's values for the documents of a task.

    Args:
        name: Name of the baseline.
        before: The baseline, with all rows of all filters.
        now: This run; its rows have ``doc_id``, ``id``, ``reads`` and the hashes.
    """
    if task not in before.rows:
        known = [*before.rows]
        hint = suggestion(task, known)
        return _refused(name, f"it has no task {task!r}{hint}")
    partial = before.results.get("partial")
    if partial:
        return _refused(name, f"it is a partial run ({partial})")
    rows = before.rows[task]
    old = sorted(firsts(rows), key=lambda row: row["doc_id"])
    pairs = pair_documents(old, now.rows.get(task, ()))
    faults = [*setting_changes(task, before, now), *content_changes(pairs, now)]
    if faults:
        return _refused(name, "; ".join(faults))
    position = {old["doc_id"]: row["doc_id"] for old, row in complete(pairs)}
    repeats: dict[str, dict[int, Answers]] = {}
    compared: dict[int, ComparedValues] = {}
    for row in rows:
        at = position.get(row["doc_id"])
        if at is not None and _counts(row):
            for key, answers in _repeats(row):
                repeats.setdefault(key, {})[at] = answers
            both = compared.get(
                at,
                ComparedValues({}, logprobs_in(row), compact(row.get("top_logprobs"))),
            )
            filters = {**both.answers, str(row.get("filter")): str(row.get("answer"))}
            compared[at] = both._replace(answers=filters)
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
        repeats=repeats,
        compared=compared,
        notes=notes,
    )


def _refused(name: str, why: str) -> Reference:
    fix = f"--evals-save-baseline={name} makes a new one"
    fault = f"baseline {name!r} is not comparable: {why}; {fix}"
    return Reference(baseline=name, fault=fault)


def _counts(row: Row) -> bool:
    """Return whether a document may have scores that count."""
    return row.get("status") in ("scored", "unscored") and not row.get("excluded")


def values_by_key(
    rows: Iterable[Row], positions: Mapping[int, int]
) -> dict[str, dict[int, Any]]:
    """Return the values of each metric, by position, without documents that do not
    count.

    Args:
        rows: The documents of a task, with a row for each filter.
        positions: ``doc_id`` of a document → its position in this run's dataset.
    """
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
    for key in (_content, _asked_with_id, _asked, _id):
        waiting: dict[Hashable, deque[int]] = defaultdict(deque)
        for number, row in left.items():
            waiting[key(row)].append(number)
        for at, row in enumerate(rows):
            content = key(row)
            if at not in found and content is not None and waiting.get(content):
                found[at] = left.pop(waiting[content].popleft())
        if not left:
            break
    return [(found.get(at), row) for at, row in enumerate(rows)]


def identities(row: Row) -> Iterator[Hashable]:
    """Yield the keys by which a document is found in another run, the most reliable
    first."""
    yield from (one for one in (_content(row), _asked(row)) if one is not None)


def _content(row: Row) -> Hashable:
    return row.get("doc_hash")


def _asked(row: Row) -> Hashable:
    """Return the hashes of prompt, target and choices; ``None`` in a run of an earlier
    version."""
    found = tuple(row.get(f"{one}_hash") for one in ("prompt", "target", "choices"))
    return None if None in found else found


def _asked_with_id(row: Row) -> Hashable:
    asked = _asked(row)
    return None if asked is None else (asked, row.get("id"))


def _id(row: Row) -> Hashable:
    return row.get("id")


def complete(pairs: Iterable[tuple[Row | None, Row]]) -> Iterator[Pair]:
    """Yield the documents that are in both runs."""
    return ((old, new) for old, new in pairs if old is not None)


def setting_changes(task: str, before: Side, now: Side) -> Iterator[str]:
    """Yield differences between settings, without looking at the documents."""
    shots = before.of("n-shot", task), now.of("n-shot", task)
    if shots[0] != shots[1]:
        yield f"{shots[1]} shots instead of {shots[0]}"
    sizes = _selected(before, task), _selected(now, task)
    if sizes[0] != sizes[1] and not is_sample(task, before, now):
        yield f"{sizes[1]} documents instead of {sizes[0]} (limit or sample)"
    versions = before.of("versions", task), now.of("versions", task)
    if None not in versions and versions[0] != versions[1]:
        yield f"version {versions[1]} of the task instead of {versions[0]}"
    judges = before.of("judged", task) or {}, now.of("judged", task) or {}
    for name in sorted({*judges[0], *judges[1]}):
        old, new = (judge.get(name, "nobody") for judge in judges)
        if old != new:
            yield f"{name} is {new} instead of {old}"
    configs = before.of("configs", task), now.of("configs", task)
    if isinstance(configs[0], dict) and isinstance(configs[1], dict):
        for key in ANSWER_KEYS:
            old, new = (config.get(key) for config in configs)
            if old != new:
                yield f"{key} is {new!r} instead of {old!r}"


def is_sample(task: str, before: Side, now: Side) -> bool:
    """Whether a run is a random sample of all documents, and the baseline has all."""
    options = now.results.get("options")
    if not isinstance(options, Mapping) or not options.get("sample"):
        return False
    samples = now.of("n-samples", task)
    total = samples.get("original") if isinstance(samples, Mapping) else None
    return not options.get("limit") and _selected(before, task) == total is not None


def _selected(side: Side, task: str) -> Any:
    counts = side.of("counts", task)
    return counts.get("selected") if isinstance(counts, dict) else None


def content_changes(
    pairs: Sequence[tuple[Row | None, Row]], now: Side
) -> Iterator[str]:
    """Yield differences in prompts, targets and the fields that scoring reads."""
    unknown = [row for old, row in pairs if old is None]
    if unknown:
        yield f"the data has changed: {_count(unknown)} not in the baseline"
    both = [*complete(pairs)]
    for what, field in (("prompt", "prompt_hash"), ("target", "target_hash")):
        changed = [row for old, row in both if row.get(field) != old.get(field)]
        if changed:
            yield f"the {what} has changed: {_count(changed)}"
    other = [pair for pair in both if _content(pair[0]) != _content(pair[1])]
    if other:
        yield from _row_changes(
            other, reads_of(row for pair in both for row in pair), now
        )


def _row_changes(
    pairs: Sequence[Pair], reads: Collection[str], now: Side
) -> Iterator[str]:
    """Yield differences in rows that scoring depends on.

    Args:
        pairs: Documents whose rows differ.
        reads: Fields that scoring reads.
        now: The later run.
    """
    known = [pair for pair in pairs if all("choices_hash" in row for row in pair)]
    if len(known) < len(pairs):
        changed = [row for _, row in pairs]
        yield (
            f"the data has changed: {_count(changed)}; the baseline was saved by an "
            "earlier version, which did not record the fields that scoring reads"
        )
        return
    choices = [new for old, new in known if old["choices_hash"] != new["choices_hash"]]
    if choices:
        yield f"the choices or references have changed: {_count(choices)}"
    if not reads:
        return
    found: dict[str, list[Row]] = {}
    for old, new in known:
        for fault in field_faults(old, new, reads, now.doc):
            found.setdefault(fault, []).append(new)
    for fault, rows in found.items():
        yield f"{fault}: {_count(rows)}"


def _count(rows: Sequence[Row]) -> str:
    named = ", ".join(str(row.get("id")) for row in rows[:MOST_NAMED])
    more = ", …" if len(rows) > MOST_NAMED else ""
    return f"{len(rows)} document{'s' * (len(rows) != 1)} ({named}{more})"


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


def environment_notes(before: Side, now: Side) -> tuple[str, ...]:
    """Return a note about the differences in hardware and libraries, which change
    numbers slightly; empty if nothing differs."""
    found = "; ".join(_machine_changes(before, now))
    return (f"{ENVIRONMENT}{found}",) if found else ()


def _machine_changes(before: Side, now: Side) -> Iterator[str]:
    old, new = (side.results.get("model_info") or {} for side in (before, now))
    keys = MACHINE_KEYS if new else ()  # a model may say nothing of itself
    if old.get("device_name") and new.get("device_name"):
        keys = (*keys, "device_name")
    yield from _differing(keys, old, new, "unknown")
    if "config" in before.results and "config" in now.results:  # not before its end
        old, new = _arguments(before), _arguments(now)
        yield from _differing(BATCH_KEYS, old, new, "automatic")


def _differing(
    keys: Iterable[str], old: Mapping[str, Any], new: Mapping[str, Any], absent: str
) -> Iterator[str]:
    for key in keys:
        if old.get(key) != new.get(key):
            known = (one.get(key) for one in (new, old))
            shown = (absent if value is None else repr(value) for value in known)
            yield "{}: {} (baseline: {})".format(key, *shown)


def _arguments(side: Side) -> Mapping[str, Any]:
    found = side.results["config"].get("model_args")
    return found if isinstance(found, dict) else {}
