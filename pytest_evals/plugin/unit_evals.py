"""Evals inside tests: the fixture ``evals``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import pytest

from pytest_evals.api import evaluate
from pytest_evals.core.model import Model
from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.record import Status
from pytest_evals.core.result import GroupResult, RunResult, TaskResult
from pytest_evals.core.task import TaskOptions
from pytest_evals.errors import EvalsError
from pytest_evals.models.names import NamedModel
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.settings.run_options import answers_of, full_spec
from pytest_evals.reports.details.examples import document_lines
from pytest_evals.reports.details.gate import gate_lines

NO_MODEL = (
    "evals: no model is set; pass model=…, --model=SPEC, or set evals_model in the ini "
    "file"
)
_MOST = 3  # documents without a score that a message lists
_COMMANDS = "  run again"  # begin of the lines with commands, which are about node ids


class UnitEvals:
    """Runs a few cases at once, with the model of the session."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        """Use the fixture ``evals``."""
        self._request = request

    def __call__(  # noqa: PLR0913 - as evaluate()
        self,
        rows: Any,
        *,
        prompt: str = "",
        target: Any = None,
        choices: Any = None,
        score: Any = (),
        gates: Any = (),
        refusals: str = REFUSALS[0],
        model: Any = None,
        judge: Any = None,
        options: TaskOptions | None = None,
    ) -> RunResult:
        """Run rows, an eval or a task, and fail the test if a gate fails.

        Args:
            rows: A list of mappings or cases; or an eval or a task.
            prompt: A template over the values of a row; by default its ``prompt``.
            target: A template or a column; by default the column ``target``.
            choices: A template, a column or a list of templates; the target is one of
                them.
            score: Scorers, or their names; ``exact`` by default.
            gates: Gates, such as ``["exact >= 0.9"]``.
            refusals: ``"answer"`` scores the text of a refusal as the answer.
            model: The model that answers; by default that of the session.
            judge: The judge; by default that of the session.
            options: Changes to the task.

        Raises:
            pytest.fail.Exception: There is no model, a gate failed, or a document has
                no score.
        """
        __tracebackhide__ = True
        fault = ""
        try:
            result: RunResult = evaluate(
                rows,
                model if model is not None else self._model(),
                options,
                prompt=prompt,
                target=target,
                choices=choices,
                score=score,
                gates=[gates] if isinstance(gates, str) else gates,
                refusals=refusals,
                judge=judge if judge is not None else self._judge(),
            )
        except EvalsError as error:
            fault = f"evals: {error}"
        if fault:  # outside of the handler: pytest shows chained exceptions
            pytest.fail(fault, pytrace=False)
        lines = [*_failures(result)]
        if lines:
            pytest.fail("\n".join(lines), pytrace=False)
        return result

    def _model(self) -> Any:
        __tracebackhide__ = True
        one = getattr(self._request, "param", None)
        if one is not None:
            return opened_model(self._request.config, one)
        has_spec = bool(self._request.config.stash[OPTIONS].model)
        if not has_spec and not self._is_overridden("eval_model"):
            pytest.fail(NO_MODEL, pytrace=False)
        return self._request.getfixturevalue("eval_model")

    def _judge(self) -> Any:
        has_spec = bool(self._request.config.stash[OPTIONS].judge)
        if not has_spec and not self._is_overridden("eval_judge"):
            return ""
        return self._request.getfixturevalue("eval_judge")

    def _is_overridden(self, name: str) -> bool:
        manager: Any = self._request.session._fixturemanager
        found: Any = manager.getfixturedefs(name, self._request.node)
        return bool(found) and not found[-1].func.__module__.startswith("pytest_evals.")


def _failures(result: RunResult) -> Iterator[str]:
    """The lines of failed gates, and of documents without a score."""
    results: dict[str, TaskResult | GroupResult] = {
        one.task.name: one for one in result.tasks
    }
    results |= {one.group.name: one for one in result.groups}
    for verdict in result.verdicts:
        if verdict.is_red:
            yield f"{verdict.gate.task}: {verdict.gate.text}"
            lines = gate_lines(verdict, results[verdict.gate.task])
            yield from takewhile(lambda line: not line.startswith(_COMMANDS), lines)
    n_missing = sum(task.n_missing for task in result.tasks)
    if n_missing:
        yield f"{n_missing} documents were not run; {result.partial}"
    no_score = (Status.ERRORED, Status.UNSCORED)
    lost = [x for task in result.tasks for x in task.records if x.status in no_score]
    if lost:
        yield f"{len(lost)} of {sum(t.n_selected for t in result.tasks)} have no score"
    for record in lost[:_MOST]:
        yield f"{record.task}[{record.doc.id}]"
        yield from (f"  {line}" for line in document_lines(record))


_OPENED: pytest.StashKey[tuple[NamedModel, Model]] = pytest.StashKey()
"""The model of the fixture ``evals``; one is open at a time."""


def parametrize_by_model(
    metafunc: pytest.Metafunc, models: Sequence[NamedModel], fixtures: Sequence[str]
) -> None:
    """Parametrize a test by the models, except fixtures that somebody overrides or
    parametrizes."""
    taken = {*_parametrized(metafunc)}
    names = [
        name
        for name in fixtures
        if name in metafunc.fixturenames
        and name not in taken
        and _is_own(metafunc, name)
    ]
    if names:
        values = [(one,) * len(names) for one in models]
        ids = [one.name for one in models]
        metafunc.parametrize(names, values, indirect=True, ids=ids, scope="session")


def _parametrized(metafunc: pytest.Metafunc) -> Iterator[str]:
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        yield from names.replace(",", " ").split() if isinstance(names, str) else names


def _is_own(metafunc: pytest.Metafunc, name: str) -> bool:
    found = metafunc._arg2fixturedefs.get(name, ())
    return bool(found) and found[-1].func.__module__.startswith("pytest_evals.")


def opened_model(config: pytest.Config, tested: NamedModel) -> Model:
    """Return one of several models; the one before it is closed."""
    opened = config.stash.get(_OPENED, None)
    if opened is not None and opened[0] == tested:
        return opened[1]
    if opened is None:
        config.add_cleanup(lambda: config.stash[_OPENED][1].close())
    else:
        opened[1].close()
    spec = full_spec(config.stash[OPTIONS], tested.spec)
    model = answers_of(config).named(spec)
    config.stash[_OPENED] = tested, model
    return model
