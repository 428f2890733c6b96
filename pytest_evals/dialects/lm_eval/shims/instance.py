"""A request of a task class (lm-eval 0.4.13, ``api/instance.py``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Instance:
    """One request; ``metadata`` is task name, document index and number of repeats."""

    request_type: str
    doc: dict[str, Any]
    arguments: Any
    idx: int
    metadata: tuple[str | None, int | None, int | None] = (None, None, None)
    resps: list[Any] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)
    task_name: str | None = None
    doc_id: int | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        self.task_name, self.doc_id, self.repeats = self.metadata

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments, always a tuple."""
        given = self.arguments
        return given if isinstance(given, tuple) else (given,)
