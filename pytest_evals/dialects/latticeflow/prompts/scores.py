"""Score of a scorer for one sample, as snippets see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SampleScore:
    """JSON values by name, and metadata, which is not aggregated. ``score["x"]`` is
    ``score.values["x"]``. Comparing a score with a string, number or boolean, which it
    never equals, raises ``TypeError``."""

    __slots__ = ("metadata", "values")

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.values = dict(values or {})
        self.metadata = dict(metadata or {})

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value with that name, or a default."""
        return self.values.get(name, default)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | int | float):
            known = ", ".join(map(repr, self.values))
            raise TypeError(
                f"SampleScore was compared with {other!r:.60}, which is never equal; "
                f"compare one of its values: {known}"
            )
        return (
            isinstance(other, SampleScore)
            and self.values == other.values
            and self.metadata == other.metadata
        )

    __hash__ = None  # type: ignore[assignment]  # its values may change

    def __repr__(self) -> str:
        return f"SampleScore({self.values!r}, {self.metadata!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return the score as JSON values."""
        return {"values": self.values, "metadata": self.metadata}
