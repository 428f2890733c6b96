"""``gates.yaml`` beside a suite: gates that name their tasks."""

from __future__ import annotations

from pathlib import Path

from pytest_evals.core.gate import Gate
from pytest_evals.errors import Problem, TaskFileError
from pytest_evals.frontends.reading.section import Section
from pytest_evals.frontends.reading.yamlfile import read_yaml
from pytest_evals.gates.rules.grammar import read_defaults, read_gate, with_unique_ids

__all__ = ["load_gates"]


def load_gates(path: Path) -> tuple[Gate, ...]:
    """The gates of a file, in its order.

    Raises:
        TaskFileError: With all problems of the file.
    """
    problems: list[Problem] = []
    file = read_yaml(path)
    top = Section(file, problems)
    defaults = _defaults(top)
    entries = top.take("gates", list, [])
    if top.values.get("gates") is None:
        top.problem("gates", "the file has no gates", 'gates: ["my_task/acc >= 0.75"]')
    gates: list[Gate] = []
    for number, entry in enumerate(entries):
        try:
            place = file.place("gates", number)
            gates.append(read_gate(entry, task="", source=place, defaults=defaults))
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


def _defaults(top: Section) -> dict[object, object]:
    """What the file says for all of its gates."""
    given = top.take("defaults", dict, {})
    try:
        return read_defaults(given, lambda key: top.file.place("defaults", str(key)))
    except TaskFileError as error:
        top.problems.extend(error.problems)
        return {}
