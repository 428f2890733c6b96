"""The models of a script: the tested one, and those that tasks ask besides."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from pytest_evals.core.model import Model
from pytest_evals.core.task import Task
from pytest_evals.core.turn import JUDGE, ModelSource
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
        self._found: dict[int | ModelSource, Model] = {}
        self._opened: list[Model] = []

    def open(self, source: Given | ModelSource) -> Model:
        """A model with its store in front; it is closed at the end unless it was given.

        Raises:
            OptionError: The spec has a mistake.
            ModelError: It cannot be opened.
        """
        if isinstance(source, str):
            model = self._answers.named(source)
        elif isinstance(source, Model):
            model = self._answers.given(source)
        else:
            model = self._answers.given(source(), f"the function {source!r:.60}")
        self._opened.append(model)
        if not isinstance(source, Model):
            self._closing.callback(model.close)
        return model

    def find(self, task: Task, name: str) -> Model:
        """The further model that a task calls by a name.

        Raises:
            OptionError: There is no judge.
        """
        source: Given | ModelSource = task.models[name]
        if source == JUDGE:
            source = self._judge
        if source == "":
            raise OptionError(f"{task.name} asks a judge: {NO_JUDGE}")
        key = id(source) if isinstance(source, Model) else source
        if key not in self._found:
            self._found[key] = self.open(source)
        return self._found[key]

    @property
    def notes(self) -> list[str]:
        """What they say of the numbers that they gave."""
        return [*dict.fromkeys(note for one in self._opened for note in one.notes)]

    @property
    def judges(self) -> dict[str, dict[str, Any]]:
        """Name → what a further model says of itself."""
        return {model.name: info_of(model) for model in self._found.values()}


def info_of(model: Model) -> dict[str, Any]:
    """What a model says of itself."""
    return dict(model.info)
