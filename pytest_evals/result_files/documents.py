"""From the answers in result files to one row for each document and filter, and to a
run in memory."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.errors import OptionError
from pytest_evals.scorers.metrics import METRICS, MetricSpec, is_accuracy
from pytest_evals.store.document_pairs import counted
from pytest_evals.store.history import MemoryRun

NO_FILTER = "none"


class GradedAnswer(NamedTuple):
    """One answer to a document, under one filter.

    Args:
        at: Its place in the files.
        id: Id of the document.
        scores: Metric → value, ``None`` for a missing one. A list of numbers is one
            value for each of several answers, unless the metric aggregates pairs.
        filter: Name of the filter pipeline.
        repeat: Which of several answers to the document this is; ``None`` if there is
            only one.
        error: Why it was not scored; empty if it was.
        fields: More fields of the row in samples files: ``answer``, ``target``,
            ``arguments``, ``doc``, hashes.
    """

    at: str
    id: str
    scores: Mapping[str, Any]
    filter: str = NO_FILTER
    repeat: Hashable = None
    error: str = ""
    fields: Mapping[str, Any] = {}


def document_rows(
    answers: Iterable[GradedAnswer],
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row for each document and filter, and notes about duplicates.

    Answers with a number each (epochs, attempts) are repeats of one document. Equal
    rows count once. A document with different rows of one id is an error: nobody knows
    which one counts.
    """
    positions: dict[str, int] = {}
    groups: dict[tuple[str, str], list[GradedAnswer]] = {}
    for one in answers:
        positions.setdefault(one.id, len(positions))
        groups.setdefault((one.id, one.filter), []).append(one)
    rows, same, differ = [], list[str](), list[str]()
    for (id_, _), found in groups.items():
        if len({one.repeat for one in found}) < len(found):
            first = found[0]
            if all(one[2:] == first[2:] for one in found):
                same.append(id_)
            else:
                differ.append(id_)
                places = " and ".join(one.at for one in found[:2])
                why = f"{len(found)} different rows have this id: {places}"
                first = first._replace(error=why)
            found = [first]
        rows.append(_row(positions[id_], found))
    return rows, [*_duplicates(same, "counted once"), *_duplicates(differ, "refused")]


def _duplicates(ids: Sequence[str], treatment: str) -> Iterator[str]:
    ids = [*dict.fromkeys(ids)]
    if ids:
        yield f"{counted(ids)} with several rows of one id, {treatment}"


def _row(position: int, found: Sequence[GradedAnswer]) -> dict[str, Any]:
    first = found[0]
    row = {
        **first.fields,
        "doc_id": position,
        "id": first.id,
        "filter": first.filter,
        "metrics": [*first.scores],
    }
    errors = [one.error for one in found if one.error]
    correct, repeats = None, {}
    for metric in first.scores:
        values = _values(metric, [one.scores.get(metric) for one in found])
        if len(values) > 1 and None not in values:
            texts = [str(one.fields.get("answer", "")) for one in found]
            if len(texts) != len(values):
                texts = [*map(repr, values)]
            repeats[metric] = {"values": values, "answers": texts}
        value = _one(values)
        key = f"{metric},{first.filter}" if metric in row else metric
        row[key] = value
        if correct is None and value in (0, 1) and is_accuracy(MetricSpec(name=metric)):
            correct = bool(value)
    lacking = any(
        row.get(f"{m},{first.filter}", row.get(m)) is None for m in row["metrics"]
    )
    row["status"] = "errored" if errors else "unscored" if lacking else "scored"
    row["error"] = errors[0] if errors else "no value" if lacking else ""
    row["correct"] = None if errors else correct
    if repeats and not errors:
        row["repeats"] = repeats
    return row


def _values(metric: str, given: Sequence[Any]) -> list[Any]:
    """The value of each answer."""
    known = METRICS.get(metric)
    if len(given) == 1 and isinstance(given[0], list):
        numbers = [as_number(one) for one in given[0]]
        if numbers and None not in numbers and not (known and known.pairs_in):
            return numbers
        return [*given]
    return [one if isinstance(one, list | tuple) else as_number(one) for one in given]


def _one(values: Sequence[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    if any(not isinstance(one, int | float) for one in values):
        return None
    return math.fsum(values) / len(values)


def as_number(value: Any) -> Any:
    """A finite number, with text of a table converted; ``None`` for other values."""
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is int or kind is bool:
        return value
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("true", "false"):
            return text == "true"
        try:
            value = float(text)
        except ValueError:
            return None
    if not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def digest(value: Any) -> str:
    """SHA-256 of a text, or of a value as JSON, as lm-eval hashes prompts."""
    if not isinstance(value, str):
        value = json.dumps(value, default=str, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def shown_fields(
    *, prompt: Any = None, target: Any = None, answer: Any = None, doc: Any = None
) -> dict[str, Any]:
    """Fields of an answer for reports, and the hashes that pair documents."""
    fields: dict[str, Any] = {"doc": doc if isinstance(doc, Mapping) else {}}
    if prompt is not None:
        fields["arguments"] = {"gen_args_0": {"arg_0": prompt}}
        fields["prompt_hash"] = digest(prompt)
    if target is not None:
        fields["target"] = str(target)
        fields["target_hash"] = digest(str(target))
    if answer is not None:
        fields["answer"] = (
            answer if isinstance(answer, str) else json.dumps(answer, default=str)
        )
        fields["resps"] = [[fields["answer"]]]
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRun(MemoryRun):
    """A run of another program.

    Args:
        program: Its name, for messages.
        notes: For readers of the verdict: which of several runs was read, how documents
            are identified, duplicates.
    """

    program: str
    notes: tuple[str, ...] = ()


def foreign_run(
    path: Path,
    program: str,
    documents: Mapping[str, Sequence[dict[str, Any]]],
    *,
    results: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> ForeignRun:
    """A run with the counts that every stored run has.

    Args:
        documents: Task → its rows, as :func:`~.documents.document_rows` makes them.
        results: Content of the program's results file, in the form of lm-eval's.

    Raises:
        OptionError: There are no documents.
    """
    if not any(documents.values()):
        raise OptionError(f"{path}: no documents in it")
    sizes = {
        task: len({row["doc_id"] for row in rows}) for task, rows in documents.items()
    }
    given = dict(results or {})
    counts = {task: {"total": n, "selected": n} for task, n in sizes.items()}
    return ForeignRun(
        path=path,
        results={**given, "counts": counts, "program": program},
        documents=documents,
        program=program,
        notes=tuple(dict.fromkeys(notes)),
    )
