"""Failed and inconclusive gates as GitHub workflow commands, at the gate's line of the
task file: ``::error file=evals/arc.yaml,line=12,title=arc acc::0.70 is not >= 0.75``.

Escaping follows actions/toolkit (``packages/core/src/command.ts``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.errors import Place, Problem
from pytest_evals.reports.details.gate import headline
from pytest_evals.reports.escape import one_line

MOST = 10
"""Maximum annotations of a kind that GitHub shows for a step."""
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


class Annotation(NamedTuple):
    """An annotation of a line of a file."""

    kind: Literal["error", "warning"]
    place: Place
    title: str
    text: str


def of_verdicts(verdicts: Sequence[Verdict]) -> Iterator[Annotation]:
    """Yield an annotation for each gate that failed, or is inconclusive and must
    pass."""
    for verdict in verdicts:
        gate = verdict.gate
        is_open = verdict.outcome is Outcome.INCONCLUSIVE and verdict.policy == "warn"
        if verdict.is_red or is_open:
            title = f"{gate.task} {gate.id}"
            kind: Literal["error", "warning"] = "warning" if is_open else "error"
            word = "inconclusive: " if verdict.outcome is Outcome.INCONCLUSIVE else ""
            yield Annotation(kind, gate.source, title, word + headline(verdict))


def of_problems(problems: Sequence[Problem]) -> Iterator[Annotation]:
    """Yield an annotation for each problem of a task file."""
    for problem in problems:
        text = (
            f"{problem.message}\nfix: {problem.fix}" if problem.fix else problem.message
        )
        yield Annotation("error", problem.where, "task file", text)


def annotation_lines(found: Sequence[Annotation], root: Path) -> Iterator[str]:
    """Yield the commands, at most ten of a kind; the last reports how many were
    omitted."""
    for kind in ("error", "warning"):
        mine = [one for one in found if one.kind == kind]
        n_shown = MOST if len(mine) <= MOST else MOST - 1
        for one in mine[:n_shown]:
            properties = ",".join(
                f"{name}={_escaped(value, _PROPERTY)}"
                for name, value in _properties(one, root)
            )
            text = "\n".join(map(one_line, one.text.splitlines()))
            yield f"::{kind} {properties}::{_escaped(text, _DATA)}"
        if len(mine) > n_shown:
            yield f"::{kind} title=evals::and {len(mine) - n_shown} more"


def _properties(one: Annotation, root: Path) -> Iterator[tuple[str, str]]:
    path = one.place.path.absolute()
    if path.is_relative_to(root) and path.is_file():
        yield "file", path.relative_to(root).as_posix()
        if one.place.line:
            yield "line", str(one.place.line)
    yield "title", one_line(one.title)


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)
