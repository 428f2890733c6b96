"""The models of a session: opened once each, asked through one plan each.

Folders may override the fixture ``eval_model``; documents that see the same definition
of it share a model and a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest
from _pytest.fixtures import FixtureDef, TopRequest

from pytest_evals.core.record import Record
from pytest_evals.core.request import Model
from pytest_evals.core.task import Task
from pytest_evals.pipeline import Plan

if TYPE_CHECKING:
    from pytest_evals.plugin.nodes import DocItem

__all__ = ["Models"]

Definition = FixtureDef[Any]


class Models:
    """Which model answers which document, and the plan of each model."""

    def __init__(self) -> None:
        """Nothing is opened yet."""
        self._plans: dict[Definition, Plan] = {}
        self._open: dict[Definition, Model] = {}
        self._broken: dict[Definition, str] = {}
        self.tick: Callable[[], None] | None = None
        """Called after each answer, for the progress line."""

    def plan(self, items: Iterable[DocItem]) -> None:
        """Plan the selected documents, one plan a definition of ``eval_model``."""
        groups: dict[Definition, list[DocItem]] = {}
        definitions: dict[int, Definition] = {}
        for item in items:
            key = id(item.parent)
            if key not in definitions:
                definitions[key] = item.parent.model_definition(item)
            groups.setdefault(definitions[key], []).append(item)
        for definition, members in groups.items():
            prepare = _Prepare(members)
            self._plans[definition] = Plan([item.job for item in members], prepare)

    def ensure(self, item: DocItem) -> None:
        """Open the model of a document, once.

        Fixtures can be had only while an item is set up. A model that cannot be opened
        is one error; all other documents that need it are skipped.
        """
        definition = item.parent.model_definition(item)
        self._skip_if_broken(definition)
        if definition in self._open:
            return
        try:
            request = TopRequest(cast("Any", item), _ispytest=True)
            self._open[definition] = request.getfixturevalue("eval_model")
        except BaseException:
            self._broken[definition] = item.nodeid
            raise

    def take(self, item: DocItem) -> Record:
        """The answered record of a document.

        A model that raises has broken: this document is the error, and those that it
        had not answered are skipped.
        """
        definition = item.parent.model_definition(item)
        self._skip_if_broken(definition)
        plan = self._plans[definition]
        try:
            return plan.take(item.job, self._open[definition], self.tick)
        except Exception:
            self._broken[definition] = item.nodeid
            raise

    def _skip_if_broken(self, definition: Definition) -> None:
        if definition in self._broken:
            pytest.skip(f"the model failed, see {self._broken[definition]}")

    @property
    def name(self) -> str:
        """The names of the models that were opened."""
        names = [getattr(m, "name", type(m).__name__) for m in self._open.values()]
        return ", ".join(dict.fromkeys(names))

    @property
    def info(self) -> Mapping[str, Any]:
        """What the first model says of itself."""
        infos = [getattr(model, "info", {}) for model in self._open.values()]
        return cast("Mapping[str, Any]", infos[0] if infos else {})

    @property
    def n_documents(self) -> int:
        """Documents in all plans."""
        return sum(len(plan) for plan in self._plans.values())

    @property
    def n_answered(self) -> int:
        """Documents that came back from a model."""
        return sum(plan.n_answered for plan in self._plans.values())

    @property
    def n_requests(self) -> int:
        """Different requests that were sent."""
        return sum(plan.n_requests for plan in self._plans.values())

    @property
    def n_tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return sum(plan.n_tokens for plan in self._plans.values())

    @property
    def model_s(self) -> float:
        """Seconds spent inside models."""
        return sum(plan.model_s for plan in self._plans.values())


class _Prepare:
    """Hands a task's records to ``pytest_evals_requests``, as its folder sees it."""

    def __init__(self, members: Sequence[DocItem]) -> None:
        self._ihook = {item.job.task.name: item.ihook for item in members}

    def __call__(self, task: Task, records: list[Record]) -> list[Record]:
        hook = self._ihook[task.name].pytest_evals_requests
        if not hook.get_hookimpls():
            return records
        changed = hook(task=task, records=records)
        return records if changed is None else list(changed)
