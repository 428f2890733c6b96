"""``--evals-calibrate K``: the same documents several times, to know how much of a
number is chance.

The run itself is the first of them; the others follow it, without items. No run is a
copy of another: sampled texts are asked for under further numbers of repeats, which the
store keeps apart, and everything else is asked of the model itself, in another order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.core.calibration import Calibration
from pytest_evals.core.metric import Metric
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Model, Request, Response
from pytest_evals.errors import StoreError
from pytest_evals.gates.planning.calibrating import calibrate
from pytest_evals.plugin.nodes import DocItem
from pytest_evals.reports.terminal.calibration import calibration_lines
from pytest_evals.store.noise import keep_noise
from pytest_evals.store.stored import StoredModel

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

__all__ = ["Again", "Calibrating"]

Scores = dict[tuple[str, str], dict[int, object]]
"""Task and key of a metric → position of a document → its value."""
FEW = 10
"""Documents with sampled texts below which equal texts may be chance."""


class Again:
    """A model that is asked once more: nothing it gives is a copy of an earlier run."""

    def __init__(self, model: Model, run: int) -> None:
        """Another run of a model; the first one was number 0."""
        self.name = model.name
        self._model, self._run = model, run

    def answer(self, requests: Sequence[Request], /) -> Iterator[tuple[int, Response]]:
        """Sampled texts under numbers of their own; all else from the model itself."""
        sampled = [i for i, one in enumerate(requests) if _is_sampled(one)]
        others = [i for i, one in enumerate(requests) if not _is_sampled(one)]
        if others:
            inner = self._model
            if isinstance(inner, StoredModel):
                inner = inner.opened()
            for place, response in inner.answer([requests[i] for i in others]):
                yield others[place], response
        if sampled:
            shifted = [self._shifted(requests[i]) for i in sampled]
            for place, response in self._model.answer(shifted):
                yield sampled[place], response

    def _shifted(self, request: Request) -> Request:
        assert isinstance(request, Generate)
        return replace(request, repeat=request.repeat + _APART * self._run)


_APART = 1_000_000
"""More repeats than any task asks for."""


def _is_sampled(request: Request) -> bool:
    return isinstance(request, Generate) and request.temperature > 0


class Calibrating:
    """The hooks of such a session, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        """Nothing is run yet."""
        self._session = session
        self._is_repeated = False
        self._found: list[Calibration] = []
        self._told: list[tuple[str, bool]] = []
        self._n_sampled = self._n_same = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """After the last document, while its model is open, the other runs."""
        if self._is_repeated or not isinstance(item, DocItem):
            return
        items = [one for one in item.session.items if isinstance(one, DocItem)]
        ran = sum(len(run.records) for run in self._session.runs.values())
        if ran == len(items):
            self._is_repeated = True
            self._repeat(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """What was not run cannot be repeated."""
        try:
            return (yield)
        finally:
            if not self._is_repeated:
                why = "not all documents were run: nothing was repeated"
                self._told.append((why, True))

    def _repeat(self, items: Sequence[DocItem]) -> None:
        records = [
            record
            for run in self._session.runs.values()
            for record in run.records.values()
        ]
        runs = [_scores(records)]
        texts: dict[tuple[str, int], str] = {}
        for number in range(1, self._session.options.calibrate):
            order = list(items)
            Random(f"{self._session.options.seed}/{number}").shuffle(order)
            again = list(self._again(order, number))
            self._compare(again, texts)
            runs.append(_scores(again))
        if self._n_sampled >= FEW and self._n_same == self._n_sampled:
            self._told.append((_COPIES, True))
            return
        for task, key in runs[0]:
            parts = [run.get((task, key), {}) for run in runs]
            found = calibrate(task, key, parts, self._metric(task, key))
            if found is not None:
                self._found.append(found)
        if not self._found:
            self._told.append(("no metric is a mean over documents", True))

    def _metric(self, task: str, key: str) -> Metric | None:
        metrics = self._session.runs[task].task.metrics
        return next((one for one in metrics if one.key == key), None)

    def _again(self, items: Sequence[DocItem], number: int) -> Iterator[Record]:
        models = self._session.models
        for item, record in models.again(items, lambda model: Again(model, number)):
            yield self._session.scored(record, item)

    def _compare(
        self, records: Sequence[Record], texts: dict[tuple[str, int], str]
    ) -> None:
        """Count sampled documents whose texts are those of the run before."""
        for record in records:
            if any(map(_is_sampled, record.requests)):
                key = record.task, record.index
                text = "\0".join(response.text for response in record.responses)
                if key in texts:
                    self._n_sampled += 1
                    self._n_same += texts[key] == text
                texts[key] = text

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record the noise, after the baseline is saved."""
        options = self._session.options
        name = options.save or options.compare
        if self._found:
            folder = options.dir / "baselines" / name
            if not name or not folder.is_dir():
                why = "the noise is not recorded: give --evals-save or --evals-compare"
                self._told.append((f"{why} with the name of a baseline", False))
            else:
                self._record(name)
        failed = any(is_bad for _, is_bad in self._told)
        if failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _record(self, name: str) -> None:
        folder = self._session.options.dir / "baselines" / name
        noise: dict[str, dict[str, Any]] = {}
        for one in self._found:
            noise.setdefault(one.task, {})[one.key] = {
                "flip_rate" if one.is_share else "mean_square": one.flip_rate,
                "mean": one.mean,
                "runs": one.n_runs,
                "documents": one.n,
                "model": self._session.models.name,
            }
        try:
            keep_noise(folder, noise)
        except StoreError as error:
            self._told.append((str(error), True))
        else:
            self._told.append((f"written to {folder} (noise)", False))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Noise, bars, and where they were written."""
        if self._found or self._told:
            terminalreporter.write_sep("=", "calibration")
        width = terminalreporter._tw.fullwidth
        for one in self._found:
            for line in calibration_lines(one, width):
                terminalreporter.write_line(line.text, **line.markup)
        for text, is_bad in self._told:
            terminalreporter.write_line(text, red=is_bad, bold=is_bad)


_COPIES = (
    "the model gives the same texts however often it is asked, though they are "
    "sampled: copies say nothing of noise\n"
    "  fix: let each repeat have a seed of its own, or the server's cache be off"
)


def _scores(records: Sequence[Record]) -> Scores:
    found: Scores = {}
    for record in records:
        for score in record.scores:
            if not (record.error or record.excluded or score.unscored):
                key = record.task, score.key
                found.setdefault(key, {})[record.index] = score.value
    return found
