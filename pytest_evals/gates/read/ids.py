"""Ids of gates: the last part of a gate's node id. They do not contain thresholds, so
history, links and reruns survive a changed threshold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath

from pytest_evals.core.gate import Gate
from pytest_evals.errors import Problem, TaskFileError

__all__ = ["default_id", "fit_for_id", "unfit_for_id", "with_unique_ids"]

_UNFIT = re.compile(r"::|[\[\]\s]")


def unfit_for_id(text: str) -> bool:
    """Whether a node id cannot hold this text: ``::``, brackets, white space and
    control characters."""
    return bool(_UNFIT.search(text)) or not text.isprintable()


def fit_for_id(text: str) -> str:
    """The text with ``-`` for whatever a node id cannot hold."""
    fit = _UNFIT.sub("-", text)
    return "".join(char if char.isprintable() else "-" for char in fit)


def default_id(gate: Gate) -> str:
    """The id of a gate without an ``id``: ``acc``, ``exact_match,strict-match``,
    ``acc-vs-main``, ``acc-vs-reference``, ``must-pass`` or ``every``."""
    if gate.is_about_documents:
        return "must-pass" if gate.must_pass else "every"
    name = f"{gate.metric},{gate.filter}" if gate.filter else gate.metric
    if gate.baseline:
        # Of a folder of a run, its last part says enough; of a model, that of its name
        # without its arguments, which may be secret.
        baseline = gate.baseline.partition(",")[0]
        name += f"-vs-{PurePath(baseline).name or baseline}"
    elif gate.published:
        name += "-vs-reference"
    return fit_for_id(name)


def with_unique_ids(gates: Iterable[Gate]) -> tuple[Gate, ...]:
    """The gates in their order, no two of one task with the same id.

    A second gate on the same metric becomes ``acc#2``, a third ``acc#3``.

    Raises:
        TaskFileError: Two gates of one task were given the same id of their own.
    """
    every = tuple(gates)
    owned: dict[tuple[str, str], Gate] = {}
    problems = []
    for gate in every:
        if gate.id == default_id(gate):
            continue
        first = owned.setdefault((gate.task, gate.id), gate)
        if first is not gate:
            what = f"gate id {gate.id!r} is taken by the gate at {first.source}"
            problems.append(Problem(what, gate.source, f"id: {gate.id}-2"))
    if problems:
        raise TaskFileError(problems)
    taken = set(owned)
    unique = []
    for gate in every:
        if gate.id == default_id(gate):
            gate = replace(gate, id=_free(gate, taken))
            taken.add((gate.task, gate.id))
        unique.append(gate)
    return tuple(unique)


def _free(gate: Gate, taken: set[tuple[str, str]]) -> str:
    candidate, n = gate.id, 1
    while (gate.task, candidate) in taken:
        n += 1
        candidate = f"{gate.id}#{n}"
    return candidate
