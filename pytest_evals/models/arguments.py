"""Arguments of model specs: names, parsing and validation. Standard library only, with
the same messages for all model kinds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.errors import OptionError, suggestion
from pytest_evals.models.spec import ModelSpec

_MOST_DIGITS = 15
"""Longer numbers are mistakes, and Python refuses to parse thousands of digits."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one model kind. Readers take an argument's name and value, and
    raise ``OptionError`` for an invalid value."""

    kind: str

    def read(
        self,
        spec: ModelSpec,
        readers: Mapping[str, Callable[[str, str], Any]],
        refused: Mapping[str, str],
    ) -> dict[str, Any]:
        """The values of a spec's arguments.

        Args:
            readers: Name of an argument → its reader.
            refused: Others that users may expect → the way out.

        Raises:
            OptionError: An argument is unknown or has an invalid value.
        """
        for name in spec.arguments:
            if name in readers:
                continue
            hint = suggestion(name, readers)
            why = f": {refused[name]}" if name in refused else hint
            raise OptionError(f"the {self.kind} model takes no argument {name!r}{why}")
        return {name: readers[name](name, v) for name, v in spec.arguments.items()}

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

    def whole(self, least: int) -> Callable[[str, str], int]:
        """A reader of whole numbers from ``least``."""

        def read(name: str, value: str) -> int:
            digits = re.fullmatch(r"\d+(_\d+)*", value)
            if not digits or len(value) > _MOST_DIGITS or int(value) < least:
                remedy = f"; write a whole number from {least}"
                raise self.wrong(name, value, remedy)
            return int(value)

        return read

    def one_of(self, known: Sequence[str]) -> Callable[[str, str], str]:
        """A reader of one of these words."""

        def read(name: str, value: str) -> str:
            if value in known:
                return value
            hint = suggestion(value, known)
            raise self.wrong(name, value, hint)

        return read

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
