"""``--evals-repeatability K``: measure how much numbers vary over K runs.

The session's own run is the first; the others follow it, without items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pytest import TerminalReporter

from pytest_evals.core.metric import Metric
from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.errors import StoreError
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.messages import write_text
from pytest_evals.plugin.models.session_models import DocumentItem
from pytest_evals.plugin.shared_state import RerunScores, scores_of
from pytest_evals.reports.escape import near
from pytest_evals.run.error_budget import unsent
from pytest_evals.run.flow import score
from pytest_evals.run.repeatability import MetricRepeatability, measure_repeatability
from pytest_evals.store.baselines import save_flip_rates
from pytest_evals.store.model import StoredModel

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

FEW = 10  # sampled documents below which equal responses may be chance


class RepeatabilityMode:
    """Runs documents again, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._found: list[MetricRepeatability] = []
        self._lines: list[tuple[str, bool]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> None:
        """Start the other runs after the last document, while its model is open."""
        session, planned = self._session, self._session.models.planned
        is_last = isinstance(item, DocItem) and not isinstance(nextitem, DocItem)
        if is_last and session.shared.repeats.n_first == len(planned):
            session.shared.repeats = repeat(session, planned)

    def _conclude(self) -> None:
        """Fail if documents were not repeated."""
        repeats = self._session.shared.repeats
        runs = self._session.suite.tasks.values()
        records = [record for run in runs for record in run.records.values()]
        n_documents = self._session.run.inference.n_documents
        if not len(records) == repeats.n_documents == n_documents:
            why = f"{repeats.n_documents:,} of {n_documents:,} documents were repeated"
            if not repeats.n_documents:
                why = "not all documents were run: nothing was repeated"
            self._lines.append((why, True))
            return
        if repeats.n_sampled >= FEW and repeats.n_same == repeats.n_sampled:
            self._lines.append((_COPIES, True))
            return
        first = scores_of(records)
        for task, key in first:
            parts = [run.get((task, key), {}) for run in (first, *repeats.runs)]
            found = measure_repeatability(task, key, parts, self._metric(task, key))
            if found is not None:
                self._found.append(found)
        if not self._found:
            self._lines.append(("no metric is a mean over documents", True))

    def _metric(self, task: str, key: str) -> Metric | None:
        metrics = self._session.suite.tasks[task].task.metrics
        return next((one for one in metrics if one.key == key), None)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record the variation after saving the baseline; a worker reports its part."""
        if self._session.assignment is not None:
            return
        self._conclude()
        options = self._session.options
        name = options.save_baseline or options.compare
        if self._found:
            folder = options.dir / "baselines" / name
            if not name or not folder.is_dir():
                why = (
                    "the noise is not recorded: give --evals-save-baseline or "
                    "--evals-compare with the name of a baseline"
                )
                self._lines.append((why, False))
            else:
                self._record(name)
        for text, is_bad in self._lines:
            if is_bad:
                self._session.outcome.fail(session, text)

    def _record(self, name: str) -> None:
        folder = self._session.options.dir / "baselines" / name
        noise: dict[str, dict[str, Any]] = {}
        for one in self._found:
            noise.setdefault(one.task, {})[one.key] = {
                "flip_rate" if one.is_share else "mean_square": one.flip_rate,
                "mean": one.mean,
                "runs": one.n_runs,
                "documents": one.n,
                "model": self._session.run.inference.name,
            }
        try:
            save_flip_rates(folder, noise)
        except StoreError as error:
            self._lines.append((str(error), True))
        else:
            here = self._session.config.invocation_params.dir
            self._lines.append((f"written to {near(folder, here)} (noise)", False))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the variation, the thresholds that it allows, and the file."""
        if self._found or self._lines:
            terminalreporter.write_sep("=", "repeatability")
        for one in self._found:
            write_text(terminalreporter, "\n".join(one.lines()))
        for text, is_bad in self._lines:
            write_text(terminalreporter, text, red=is_bad, bold=is_bad)


_COPIES = (
    "the generations are sampled, but identical in every run: the runs are copies, so "
    "they do not show how much numbers vary\n"
    "  fix: use a different seed for each repeat, or turn off the server's cache"
)


# No run is a copy of another: sampled generations have further repeat numbers, which
# the store keeps separately, and all other requests bypass the store, in another order.
# With pytest-xdist each worker repeats the documents of its shard.
class RerunModel(Model):
    """A model for a further run, without responses of earlier runs."""

    def __init__(self, model: Model, run: int) -> None:
        """Create the model of run ``number``; the first run is 0."""
        self.name = model.name
        self.is_deterministic: bool = bool(getattr(model, "is_deterministic", False))
        self._model, self._run = model, run

    def answer(self, requests: Sequence[Request], /) -> Iterator[tuple[int, Response]]:
        """Answer sampled generations under new repeat numbers, and all other requests
        without the store."""
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


_APART = 1_000_000  # more repeats than any task has


def _is_sampled(request: Request) -> bool:
    return isinstance(request, Generate) and request.temperature > 0


def repeat(session: EvalSession, items: Sequence[DocumentItem]) -> RerunScores:
    """Run documents again."""
    found = RerunScores(n_documents=len(items))
    texts: dict[tuple[str, int], str] = {}
    for number in range(1, session.options.repeatability):
        order = list(items)
        Random(f"{session.options.seed}/{number}").shuffle(order)
        asked = session.models.again(
            order,
            lambda model, n=number: RerunModel(model, n),  # type: ignore[misc]
        )
        records = [
            score(record, item.job.task, item.parent.score_hook)
            for item, record in asked
            if not unsent(record)
        ]
        found.n_documents = min(found.n_documents, len(records))
        _compare(found, records, texts)
        found.runs.append(scores_of(records))
    return found


def _compare(
    found: RerunScores, records: Sequence[Record], texts: dict[tuple[str, int], str]
) -> None:
    """Count sampled documents with the same responses as in the previous run."""
    for record in records:
        if any(map(_is_sampled, record.requests)):
            key = record.task, record.index
            text = "\0".join(response.text for response in record.responses)
            if key in texts:
                found.n_sampled += 1
                found.n_same += texts[key] == text
            texts[key] = text
