"""Base class of objects that contain text but are not strings."""

from __future__ import annotations

from collections.abc import Mapping


class Structured:
    """An object that cannot be compared with a string: the result would always be False
    and score correct answers as wrong."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same object.

        Raises:
            TypeError: The other object is a string.
        """
        refuse_text(self, other)
        return self is other

    __hash__ = object.__hash__


def refuse_text(one: object, other: object) -> None:
    """Refuse to compare an object with a string.

    Raises:
        TypeError: The other object is a string.
    """
    if isinstance(other, str):
        keys = f": {', '.join(map(str, one))}" if isinstance(one, Mapping) else ""
        raise TypeError(
            f"{type(one).__name__} was compared with the string "
            f"{other!r:.60}, which is "
            f"never equal; compare one of its fields{keys}"
        )
