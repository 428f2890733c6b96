"""Gates that stand in the file of what they are about: under ``gates`` or, where
lm-eval must read the file too, under ``metadata.gates``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.dialects.gates_section.anchors import read_gates
from pytest_evals.dialects.metadata_keys import misspelt
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import Step
from pytest_evals.errors import Problem, TaskFileError
from pytest_evals.gates.read.text import with_unique_ids


def metadata_of(top: Section, over: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as a mapping; what is none stands under ``_metadata``.

    Args:
        top: The file.
        over: Entries that beat those of the file.
    """
    given = top.raw("metadata")
    if given is not None and not isinstance(given, dict):
        given = {"_metadata": given}
    return {**(given or {}), **over}


def metadata_warnings(top: Section) -> list[str]:
    """Which keys under ``metadata`` of a file are probably meant for one of ours."""
    return [
        f"{top.file.place('metadata', *way)}: metadata.{'.'.join(map(str, way))} is "
        f"not read; did you mean metadata.{own}?"
        for way, own in misspelt(top.values.get("metadata"))
    ]


def own_gates(
    top: Section, name: str, metadata: Mapping[str, Any], noun: str = "task"
) -> tuple[Gate, ...]:
    """The gates of a file; those that cannot be used are problems of it.

    Args:
        top: The file.
        name: Of its task or group.
        metadata: As :func:`metadata_of` gives it.
        noun: What the name is, where the file does not say it.
    """
    found: list[Gate] = []
    top.raw("gates")
    given: Iterable[tuple[tuple[Step, ...], Any]] = (
        (("gates",), top.values.get("gates")),
        (("metadata", "gates"), metadata.get("gates")),
    )
    for steps, entries in given:
        if entries is None:
            continue
        if not isinstance(entries, list):
            place = top.file.place(*steps)
            fix = "gates: [acc >= 0.75]"
            top.problems.append(Problem("gates is a list", place, fix))
            continue
        for number, entry in enumerate(entries):
            try:
                place = top.file.place(*steps, number)
                found += read_gates(entry, task=name or noun, source=place)
            except TaskFileError as error:
                top.problems.extend(error.problems)
    try:
        return with_unique_ids(found)
    except TaskFileError as error:
        top.problems.extend(error.problems)
        return ()
