"""The models of a session beside the tested one: judges, and those that tasks name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.errors import ModelError

if TYPE_CHECKING:
    from _pytest.fixtures import FixtureDef, TopRequest

    from pytest_evals.core.request import Model
    from pytest_evals.core.task import Task
    from pytest_evals.run.cached_model import Answers

__all__ = ["Definition", "Furthers", "model_of"]


class Definition(NamedTuple):
    """The definitions of ``eval_model`` and ``eval_judge`` that a file sees. Documents
    with equal ones share models and a plan."""

    model: FixtureDef[Any]
    judge: FixtureDef[Any]

    @property
    def has_own_model(self) -> bool:
        """Whether the tested model is opened by our fixture: nobody overrides it."""
        return _is_own(self.model)

    @property
    def has_own_judge(self) -> bool:
        """Whether the judge is."""
        return _is_own(self.judge)


def _is_own(fixture: FixtureDef[Any]) -> bool:
    return str(fixture.func.__module__).startswith("pytest_evals.")


class Furthers:
    """Opens each further model once, when it is first asked."""

    def __init__(self, answers: Answers) -> None:
        """Nothing is opened yet."""
        self._answers = answers
        self._judges: dict[Definition, Model] = {}
        self._named: dict[ModelSource, Model] = {}

    def judge_by(self, definition: Definition, request: TopRequest) -> None:
        """Have the judge of some documents ready, while fixtures can be had."""
        given = model_of(request.getfixturevalue("eval_judge"), "eval_judge")
        self._judges[definition] = self._answers.given(given)

    def find(self, definition: Definition, task: Task, name: str) -> Model:
        """The model that a task calls by a name.

        Raises:
            OptionError: Its spec has a mistake.
            ModelError: It cannot be opened.
        """
        source = task.models[name]
        if source == JUDGE:
            return self._judges[definition]
        if source not in self._named:
            self._named[source] = self._opened(source)
        return self._named[source]

    def _opened(self, source: ModelSource) -> Model:
        if isinstance(source, str):
            return self._answers.named(source)
        return self._answers.given(source())

    @property
    def all(self) -> Iterator[Model]:
        """All that were opened."""
        yield from self._judges.values()
        yield from self._named.values()

    def infos(self) -> Mapping[str, Mapping[str, Any]]:
        """Name → what a model says of itself."""
        return {one.name: getattr(one, "info", None) or {} for one in self.all}

    def close(self) -> None:
        """Give back what was opened here; judges are their fixtures' matter."""
        for model in self._named.values():
            close = getattr(model, "close", None)
            if close is not None:
                close()
        self._named.clear()


def model_of(given: Any, fixture: str) -> Model:
    """What a fixture gave, if it is a model.

    Raises:
        ModelError: It has no method ``answer``.
    """
    if not callable(getattr(given, "answer", None)):
        raise ModelError(
            f"the fixture {fixture} gave {type(given).__name__} {given!r:.60}, which "
            "is no model\n  fix: return an object with a name and a method "
            "answer(requests)"
        )
    return cast("Model", given)
