"""Reads gates of task and group files: under ``gates`` or, in files that lm-eval must
read too, under ``metadata.gates``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.data.calls import collecting
from pytest_evals.dialects.metadata_keys import (
    REFUSALS,
    misspelled_keys,
    refusals_fault,
)
from pytest_evals.dialects.resemblance import misplaced_gates
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import Step
from pytest_evals.errors import Problem
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.gates.read.keys import ALLOWED
from pytest_evals.gates.read.text import with_unique_ids

_MOVE = "move 'gates:' to the start of the line, and its gates below it"


def metadata_of(top: Section, over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata as a mapping; any other value is stored under
    ``_metadata``. ``over``: entries that override those of the file."""
    given = top.raw("metadata")
    if given is not None and not isinstance(given, dict):
        given = {"_metadata": given}
    return {**(given or {}), **over}


def metadata_warnings(top: Section) -> list[str]:
    """Return warnings about keys under ``metadata`` that resemble one of ours."""
    return [
        f"{top.file.place('metadata', *path)}: metadata.{'.'.join(map(str, path))} is "
        f"not read; did you mean metadata.{known}?"
        for path, known in misspelled_keys(top.values.get("metadata"))
    ]


def refusals_of(top: Section, metadata: Mapping[str, Any]) -> str:
    """Return ``metadata.refusals`` of a task file; an error is added to its
    problems."""
    given = metadata.get(REFUSALS, "error")
    if fault := refusals_fault(given):
        place = top.file.place("metadata", REFUSALS)
        top.problems.append(
            Problem(f"refusals: {fault}", place, "metadata: {refusals: answer}")
        )
    return str(given)


GATE_FIXES = {"threshold": "add a gate: gates: [METRIC >= 0.9]"}
"""Key that is not one of a file with gates → what to write instead."""


def own_gates(
    top: Section, name: str, metadata: Mapping[str, Any], noun: str = "task"
) -> tuple[Gate, ...]:
    """Return the gates of a file; errors are added to its problems. ``noun``:
    placeholder for a missing name."""
    gates: list[Gate] = []
    top.raw("gates")
    for key in misplaced_gates(top.values):
        top.problem(key, f"the gates in {key!r} are not read", _MOVE)
    given: Iterable[tuple[tuple[Step, ...], Any]] = (
        (("gates",), top.values.get("gates")),
        (("metadata", "gates"), metadata.get("gates")),
    )
    for steps, entries in given:
        if entries is None:
            continue
        if not isinstance(entries, list):
            place = top.file.place(*steps)
            kind = "mapping" if isinstance(entries, dict) else type(entries).__name__
            kind = "string" if isinstance(entries, str) else kind
            one = repr(entries) if isinstance(entries, str) else "acc >= 0.75"
            message = f"gates must be a list, not a {kind}"
            top.problems.append(Problem(message, place, f"gates: [{one}]"))
            continue
        for number, entry in enumerate(entries):
            place = top.file.place(*steps, number)
            with collecting(top.problems, place):
                gates.append(read_gate(entry, task=name or noun, source=place))
    if metadata.get("missing") == ALLOWED:
        gates = [replace(gate, allows_missing=True) for gate in gates]
    with top.collecting("gates"):
        return with_unique_ids(gates)
    return ()
