"""The keys of a gate that say what it claims: ``metric`` with ``min`` and ``max``, of
which ``task`` or ``group``, or ``must_pass``; and its ``id``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pytest_evals.core.gate import Bound
from pytest_evals.gates.rules.baseline_keys import BASELINE_KEYS
from pytest_evals.gates.rules.claim import (
    ClaimError,
    LackError,
    Subject,
    read_number,
    split_subject,
)
from pytest_evals.gates.rules.ids import fit_for_id, unfit_for_id

__all__ = ["read_bounds", "read_must_pass", "read_own_id", "read_subject"]


def read_subject(entry: Mapping[object, object], task: str) -> Subject:
    """What the gate is about; without a metric where it names documents.

    Args:
        entry: The mapping.
        task: Name of the task that it stands in; empty if it stands outside of one.

    Raises:
        ClaimError: It names no metric, or another task.
    """
    own = _owner(entry)
    if own and task and own != task:
        what = f"the gate names task {own!r} but belongs to task {task!r}"
        key = "task" if "task" in entry else "group"
        raise ClaimError(what, f"leave {key!r} out")
    if "must_pass" in entry:
        return Subject(own or task, "", "")
    metric = _text(entry, "metric")
    if not metric:
        raise LackError("the gate names no metric", "metric: acc", ["metric"])
    if own:
        # The task is said: a slash in the metric is part of its name, unless the
        # prefix repeats the task.
        name, comma, pipeline = metric.removeprefix(f"{own}/").partition(",")
        if not name or (comma and not pipeline):
            return split_subject(metric, own)
        return Subject(own, name.strip(), pipeline.strip())
    return split_subject(metric, task)


def _owner(entry: Mapping[object, object]) -> str:
    """The task or the group that the entry names; empty if it names none."""
    if "task" in entry and "group" in entry:
        raise ClaimError("a gate is about a task or a group", "leave one of them out")
    return _text(entry, "task") or _text(entry, "group")


def read_bounds(entry: Mapping[object, object]) -> tuple[Bound, ...]:
    """``min`` and ``max``.

    Raises:
        ClaimError: There is neither, and nothing else that is claimed; or nothing can
            keep both.
    """
    sides: tuple[tuple[str, Literal[">=", "<="]], ...] = (("min", ">="), ("max", "<="))
    bounds = tuple(
        Bound(op, read_number(entry[key], key)) for key, op in sides if key in entry
    )
    if not bounds and not {"must_pass", *BASELINE_KEYS} & entry.keys():
        raise LackError(
            "the gate claims nothing: it has neither min nor max",
            "min: 0.75",
            ["min", "max", "must_pass", *BASELINE_KEYS],
        )
    if len(bounds) == 2 and bounds[0].value > bounds[1].value:
        what = f"nothing is both {bounds[0]} and {bounds[1]}"
        raise ClaimError(what, "let min be at most max")
    return bounds


def read_must_pass(entry: Mapping[object, object]) -> tuple[str, ...]:
    """Ids of documents, each once; empty where the gate is about a number.

    Raises:
        ClaimError: It is no list of ids.
    """
    if "must_pass" not in entry:
        return ()
    ids = entry["must_pass"]
    example = "must_pass: [Mercury_7175875, 417]"
    if not isinstance(ids, (list, tuple)) or not ids:
        what = f"must_pass is a list of document ids, not {ids!r}"
        raise ClaimError(what, example)
    for one in ids:
        if isinstance(one, bool) or not isinstance(one, (str, int)) or one == "":
            what = f"{one!r} in must_pass is no document id"
            raise ClaimError(what, f"quote it: {str(one)!r}" if one else example)
    return tuple(dict.fromkeys(str(one) for one in ids))


def read_own_id(entry: Mapping[object, object]) -> str:
    """The id that the entry gives, empty if it gives none.

    Raises:
        ClaimError: A node id cannot hold it.
    """
    own = _text(entry, "id")
    if "id" in entry and not own:
        raise ClaimError("id is empty", "id: acc-floor")
    if unfit_for_id(own):
        what = f"id {own!r} holds '::', a bracket, white space or a control character"
        raise ClaimError(what, f"id: {fit_for_id(own)}")
    return own


def _text(entry: Mapping[object, object], key: str) -> str:
    """The text of a key, empty if it is not there. YAML reads a metric called 4096 as a
    number."""
    value = entry.get(key, "")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ClaimError(f"{key} must be text, not {value!r}", f'{key}: "…"')
    return str(value).strip()
