"""The arguments of :func:`~pytest_evals.dialects.native.python.eval`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.core.dialogue import ModelSource
from pytest_evals.core.model import ModelLike
from pytest_evals.core.reasoning import REFUSALS as WAYS
from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.metadata_keys import REFUSALS
from pytest_evals.dialects.native.conversations import UserSimulator, simulator_of
from pytest_evals.errors import EvalsError

ModelGiven = str | ModelLike | Callable[..., Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSettings:
    """The arguments of :func:`eval`."""

    score: tuple[Any, ...] = ()
    gates: tuple[Any, ...] = ()
    model: ModelGiven = None
    system: str = ""
    generation: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 1
    refusals: str = WAYS[0]
    extract: Any = None
    tools: Any = None
    traces: bool = False
    user: Any = None
    choices_by: str = ""
    tags: tuple[str, ...] = ()
    version: str | int | float | None = None

    def config(self) -> dict[str, Any]:
        """The arguments for results files."""
        is_set = self.refusals != WAYS[0]
        return {
            "system": self.system,
            "generation": dict(self.generation),
            "model": self.model if isinstance(self.model, str) else None,
            **({REFUSALS: self.refusals} if is_set else {}),
            **({"extract": self.extract} if self.extract else {}),
            **({"tools": self.tools} if self.tools else {}),
            **({"traces": True} if self.traces else {}),
            **({"user": self._shown_user()} if self.user else {}),
            "metadata": {"version": self.version},
        }

    def _shown_user(self) -> Mapping[str, Any]:
        model = self.user.get("model")
        return {**self.user, "model": model if isinstance(model, str) else None}


def simulator_in(given: Any) -> UserSimulator | None:
    """Return the settings of simulated users; ``None`` without any. Raises EvalsError
    if a setting is invalid."""
    if given is None:
        return None
    model = given.get("model") if isinstance(given, Mapping) else None
    return simulator_of(given, model_source(model))


def as_tuple(given: Any) -> tuple[Any, ...]:
    """A list as a tuple, any other value as a tuple with one element."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def check_repeats(repeats: object) -> None:
    """Raise ``EvalsError`` for an invalid number of answers to a prompt."""
    if type(repeats) is not int or not 1 <= repeats <= MOST_REPEATS:
        raise EvalsError(f"repeats is not a whole number from 1 to {MOST_REPEATS:,}")


def model_source(given: ModelGiven) -> ModelSource | None:
    """Return the source of a model; ``None`` without one."""
    if given is None or isinstance(given, str):
        return given or None
    from pytest_evals.models.python.model import model_of

    model = model_of(given, "model")
    return lambda: model  # each object is a separate source
