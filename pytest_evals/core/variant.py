"""Entries of ``--evals-tasks``: a name, optionally with a number of few-shot examples
and with arguments of its metrics.

The forms are lighteval's (0.13.0): ``name``, ``name|shots``, ``suite|name|shots`` of
its earlier releases, whose suite is ignored, and
``name@argument=value@argument=value|shots``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_evals.errors import OptionError


class Variant(NamedTuple):
    """One variant of a task."""

    shots: int | None = None
    """Number of few-shot examples; ``None`` for the task's own number, or that of the
    session."""
    arguments: tuple[tuple[str, Any], ...] = ()
    """Arguments of its metrics, as sorted pairs."""

    def __str__(self) -> str:
        """As typed after the name."""
        tail = "".join(f"@{key}={value}" for key, value in self.arguments)
        return tail if self.shots is None else f"{tail}|{self.shots}"


class TaskPattern(NamedTuple):
    """A name or a glob, and the variant of the matching tasks."""

    name: str
    variant: Variant = Variant()


def task_pattern(text: str) -> TaskPattern:
    """Parse one entry of ``--evals-tasks``. A text with more bars than any form is a
    name. Raises ``OptionError`` if the number of few-shot examples or an argument is
    invalid."""
    parts = text.split("|")
    shots: int | None = None
    if len(parts) == 4 and parts[2].isdecimal() and parts[3] in ("0", "1"):
        parts = parts[:3]  # with a flag that lighteval ignores
    if len(parts) > 3:
        return TaskPattern(text)
    if len(parts) > 1:
        if not (parts[-1].isascii() and parts[-1].isdecimal()):
            raise OptionError(
                f"{text!r}: the number of few-shot examples after the last '|' must be "
                f"an integer, not {parts[-1]!r}"
            )
        shots = int(parts[-1])
    name, *settings = parts[-2 if len(parts) > 1 else 0].split("@")
    return TaskPattern(
        name, Variant(shots, tuple(sorted(_arguments(text, settings).items())))
    )


def _arguments(text: str, settings: list[str]) -> Mapping[str, Any]:
    arguments: dict[str, Any] = {}
    for part in settings:
        key, sign, value = part.partition("=")
        try:
            arguments[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            sign = ""
        if not sign or not key.isidentifier():
            raise OptionError(
                f"{text!r}: @{part} is not an argument with a value\
  fix: @k=1"
            )
    return arguments
