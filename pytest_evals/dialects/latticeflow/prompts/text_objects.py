"""Objects that hold text in one of their fields, and are no text themselves."""

from __future__ import annotations

from collections.abc import Mapping


class Structured:
    """An object whose comparison with a string is an error: the result would always be
    False, and score right answers as wrong."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Whether both are the same object.

        Raises:
            TypeError: The other one is a string.
        """
        refuse_text(self, other)
        return self is other

    __hash__ = object.__hash__


def refuse_text(one: object, other: object) -> None:
    """Refuse to compare a structured object with a string.

    Raises:
        TypeError: The other one is a string.
    """
    if isinstance(other, str):
        keys = f": {', '.join(map(str, one))}" if isinstance(one, Mapping) else ""
        raise TypeError(
            f"{type(one).__name__} is compared with the string {other!r:.60}, which is "
            f"never equal; compare one of its fields{keys}"
        )
