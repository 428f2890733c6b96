"""What a scorer says of one sample, as snippets see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SampleScore:
    """Values with names; ``score["x"]`` is ``score.values["x"]``.

    Args:
        values: Name → value, any JSON value.
        metadata: What is kept beside and never added up.
    """

    __slots__ = ("metadata", "values")

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep both."""
        self.values = dict(values or {})
        self.metadata = dict(metadata or {})

    def __getitem__(self, name: str) -> Any:
        """The value of that name."""
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is such a value."""
        return name in self.values

    def get(self, name: str, default: Any = None) -> Any:
        """The value of that name, or something else."""
        return self.values.get(name, default)

    def __eq__(self, other: object) -> bool:
        """Whether values and metadata are equal.

        Raises:
            TypeError: The other one is a string, a number or a boolean, which a score
                holds and never is.
        """
        if isinstance(other, str | int | float):
            known = ", ".join(map(repr, self.values))
            raise TypeError(
                f"SampleScore is compared with {other!r:.60}, which is never equal; "
                f"compare one of its values: {known}"
            )
        return (
            isinstance(other, SampleScore)
            and self.values == other.values
            and self.metadata == other.metadata
        )

    __hash__ = None  # type: ignore[assignment]  # its values may change

    def __repr__(self) -> str:
        """As it would be made."""
        return f"SampleScore({self.values!r}, {self.metadata!r})"

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"values": self.values, "metadata": self.metadata}
