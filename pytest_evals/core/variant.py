"""How ``--evals-tasks`` may ask for a task: by its name alone, or with shots and with
arguments of its metrics.

The forms are lighteval's (0.13.0): ``name``, ``name|shots``, ``suite|name|shots`` of
its earlier releases, whose suite means nothing any more, and
``name@argument=value@argument=value|shots``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_evals.errors import OptionError


class Variant(NamedTuple):
    """One way in which a task is asked for.

    Args:
        shots: How many; ``None`` for the task's own number, or that of the session.
        arguments: Of its metrics, as sorted pairs.
    """

    shots: int | None = None
    arguments: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        """As it is typed behind the name."""
        tail = "".join(f"@{key}={value}" for key, value in self.arguments)
        return tail if self.shots is None else f"{tail}|{self.shots}"


class Wanted(NamedTuple):
    """A name or a glob, and how what answers to it is wanted."""

    name: str
    variant: Variant = Variant()


def wanted(text: str) -> Wanted:
    """What one entry of ``--evals-tasks`` asks for. What has more bars than any form is
    a name as it stands.

    Raises:
        OptionError: The shots are no number, or an argument no value.
    """
    parts = text.split("|")
    shots: int | None = None
    if len(parts) == 4 and parts[2].isdecimal() and parts[3] in ("0", "1"):
        parts = parts[:3]  # with a flag that has meant nothing for long
    if len(parts) > 3:
        return Wanted(text)
    if len(parts) > 1:
        if not (parts[-1].isascii() and parts[-1].isdecimal()):
            raise OptionError(
                f"{text!r}: the number of shots stands behind the last '|', and "
                f"{parts[-1]!r} is no whole number"
            )
        shots = int(parts[-1])
    name, *given = parts[-2 if len(parts) > 1 else 0].split("@")
    return Wanted(name, Variant(shots, tuple(sorted(_arguments(text, given).items()))))


def _arguments(text: str, given: list[str]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for part in given:
        key, sign, value = part.partition("=")
        try:
            found[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            sign = ""
        if not sign or not key.isidentifier():
            raise OptionError(
                f"{text!r}: @{part} is no argument with a value; write @k=1"
            )
    return found
