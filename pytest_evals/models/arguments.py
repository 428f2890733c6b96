"""Arguments of model specs: names, parsing and validation. Standard library only, with
the same messages for all model kinds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pytest_evals.errors import OptionError, suggestion
from pytest_evals.models.spec import ModelSpec

_MOST_DIGITS = 15
"""Longer numbers are mistakes, and Python refuses to parse thousands of digits."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one model kind. Readers take this, an argument's name and its
    value, and raise ``OptionError`` for an invalid value."""

    kind: str

    def read(
        self, spec: ModelSpec, settings: type, refused: Mapping[str, str]
    ) -> dict[str, Any]:
        """The values of a spec's arguments.

        Args:
            settings: A class with fields that :func:`argument` made.
            refused: Others that users may expect → the way out.

        Raises:
            OptionError: An argument is unknown or has an invalid value.
        """
        readers = readers_of(settings)
        for name in spec.arguments:
            if name in readers:
                continue
            hint = suggestion(name, readers)
            why = f": {refused[name]}" if name in refused else hint
            raise OptionError(f"the {self.kind} model takes no argument {name!r}{why}")
        return {n: readers[n](self, n, value) for n, value in spec.arguments.items()}

    def wrong(self, name: str, value: str, rest: str) -> OptionError:
        """The error for an invalid value."""
        return OptionError(f"the {self.kind} model's {name} is {value!r}{rest}")

    def text(self, name: str, value: str) -> str:
        """Any non-empty string."""
        if not value:
            raise OptionError(f"the {self.kind} model's {name} is empty; leave it out")
        return value

    def flag(self, name: str, value: str) -> bool:
        """True or false."""
        word = value.lower()
        if word in ("true", "1", "yes"):
            return True
        if word in ("false", "0", "no"):
            return False
        raise self.wrong(name, value, "; write true or false")

    def mapping(self, name: str, value: str) -> dict[str, Any]:
        """A JSON object."""
        try:
            found = json.loads(value)
        except (ValueError, RecursionError) as error:
            what = f"the {self.kind} model's {name} is not JSON: {error}"
            raise OptionError(what) from None
        if not isinstance(found, dict):
            what = f"the {self.kind} model's {name} is not a JSON object: {value!r}"
            raise OptionError(what)
        return found


Reader = Callable[[Arguments, str, str], Any]


def argument(read: Reader, default: Any, *, shown: bool = True) -> Any:
    """A field of a settings class that is an argument of specs.

    Args:
        read: Reads its value.
        default: Its value if it is not given.
        shown: Whether its value is part of ``repr``.
    """
    metadata = {"read": read}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata, repr=shown)
    return field(default=default, metadata=metadata, repr=shown)


def readers_of(settings: type) -> dict[str, Reader]:
    """Arguments of a settings class and their readers."""
    found = fields(settings)
    return {one.name: one.metadata["read"] for one in found if "read" in one.metadata}


def whole(least: int) -> Reader:
    """A reader of whole numbers from ``least``."""

    def read(kind: Arguments, name: str, value: str) -> int:
        digits = re.fullmatch(r"\d+(_\d+)*", value)
        if not digits or len(value) > _MOST_DIGITS or int(value) < least:
            raise kind.wrong(name, value, f"; write a whole number from {least}")
        return int(value)

    return read


def one_of(known: Sequence[str]) -> Reader:
    """A reader of one of these words."""

    def read(kind: Arguments, name: str, value: str) -> str:
        if value in known:
            return value
        raise kind.wrong(name, value, suggestion(value, known))

    return read
