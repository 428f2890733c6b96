"""The models of a script: the tested one, and those that tasks ask besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, cast

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.request import Model
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError
from pytest_evals.run.cached_model import Answers

__all__ = ["NO_JUDGE", "Given", "Models", "info_of"]

NO_JUDGE = (
    "there is no judge to ask\n"
    "  fix: give one, as in evaluate(…, judge='openai:gpt-4o')"
)
Given = str | Model
"""A spec, or a model that is open."""


class Models:
    """Opens each model once; what is opened here is closed with ``closing``."""

    def __init__(self, answers: Answers, judge: Given, closing: ExitStack) -> None:
        """Nothing is opened yet.

        Args:
            answers: The store in front of them.
            judge: What judges answers; empty for nothing.
            closing: Where to say what is to be closed.
        """
        self._answers, self._judge, self._closing = answers, judge, closing
        self._found: dict[int | str, Model] = {}
        self._opened: list[Model] = []

    def open(self, source: Given) -> Model:
        """A model with its store in front.

        Raises:
            OptionError: The spec has a mistake.
            ModelError: It cannot be opened.
        """
        if not isinstance(source, str):
            self._opened.append(self._answers.given(source))
            return self._opened[-1]
        model = self._answers.named(source)
        self._opened.append(model)
        close = getattr(model, "close", None)
        if close is not None:
            self._closing.callback(close)
        return model

    def find(self, task: Task, name: str) -> Model:
        """The further model that a task calls by a name.

        Raises:
            OptionError: There is no judge.
        """
        source: ModelSource | Model = task.models[name]
        if source == JUDGE:
            source = self._judge
        if source == "":
            raise OptionError(f"{task.name} asks a judge: {NO_JUDGE}")
        key = source if isinstance(source, str) else id(source)
        if key not in self._found:
            made = source if hasattr(source, "answer") else self._made(source)
            self._found[key] = self.open(cast("Given", made))
        return self._found[key]

    @staticmethod
    def _made(source: ModelSource | Model) -> Given:
        if isinstance(source, str):
            return source
        return cast("Callable[[], Model]", source)()

    @property
    def notes(self) -> list[str]:
        """What they say of the numbers that they gave."""
        said = (getattr(model, "notes", ()) for model in self._opened)
        return [*dict.fromkeys(note for notes in said for note in notes)]

    @property
    def judges(self) -> dict[str, dict[str, Any]]:
        """Name → what a further model says of itself."""
        return {model.name: info_of(model) for model in self._found.values()}


def info_of(model: Model) -> dict[str, Any]:
    """What a model says of itself."""
    found = getattr(model, "info", None)
    return dict(found) if isinstance(found, Mapping) else {}
