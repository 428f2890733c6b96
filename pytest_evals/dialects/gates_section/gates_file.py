"""Reads ``gates.yaml`` next to a suite: gates that name their tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.dialects.gates_section.anchors import read_gates
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlParser, bytes_of
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.gates.read.entry import read_defaults
from pytest_evals.gates.read.text import with_unique_ids


def load_gates(path: Path) -> tuple[Gate, ...]:
    """Return the gates of a file, in order.

    Raises:
        TaskFileError: With all problems of the file.
    """
    problems: list[Problem] = []
    path = path.absolute()
    file = _Reader(path).read(bytes_of(path))
    top = Section(file, problems)
    defaults = _defaults(top)
    entries = top.take("gates", list, [])
    if top.values.get("gates") is None:
        top.problem("gates", "the file has no gates", 'gates: ["my_task/acc >= 0.75"]')
    gates: list[Gate] = []
    for number, entry in enumerate(entries):
        try:
            place = file.place("gates", number)
            gates += read_gates(entry, task="", source=place, defaults=defaults)
        except TaskFileError as error:
            problems.extend(error.problems)
    top.close("a gates file")
    try:
        unique = with_unique_ids(gates)
    except TaskFileError as error:
        problems.extend(error.problems)
    if problems:
        raise TaskFileError(problems)
    return unique


class _Reader(YamlParser):
    """Reader of gates files. A duplicate key is an error, because no other program
    reads them."""

    def _duplicate_key(self, key: Any, here: Place) -> None:
        raise TaskFileError([Problem(f"{key!r} is a duplicate key", here)])


def _defaults(top: Section) -> dict[object, object]:
    """Return the defaults of all gates in the file."""
    given = top.take("defaults", dict, {})
    try:
        return read_defaults(given, lambda key: top.file.place("defaults", str(key)))
    except TaskFileError as error:
        top.problems.extend(error.problems)
        return {}
