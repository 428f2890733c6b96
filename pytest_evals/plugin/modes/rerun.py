"""Run documents again, without items, for ``--evals-repeatability``.

No run is a copy of another: sampled generations have further repeat numbers, which the
store keeps separately, and all other requests bypass the store,
in another order. With pytest-xdist each worker repeats the documents of its shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from pytest_evals.core.model import Model
from pytest_evals.core.record import Record
from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.plugin.models.definitions import DocumentItem
from pytest_evals.plugin.rerun_scores import RerunScores, scores_of
from pytest_evals.run.error_budget import unsent
from pytest_evals.store.model import StoredModel

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


class RerunModel(Model):
    """A model for a further run, without responses of earlier runs."""

    def __init__(self, model: Model, run: int) -> None:
        """Create the model of run ``number``; the first run is 0."""
        self.name = model.name
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


_APART = 1_000_000
"""More repeats than any task has."""


def _is_sampled(request: Request) -> bool:
    return isinstance(request, Generate) and request.temperature > 0


def repeat(session: EvalSession, items: Sequence[DocumentItem]) -> RerunScores:
    """Run documents again.

    Args:
        session: Its models are open.
        items: Documents that were run once.
    """
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
            session.run.score(record, item.job.task, item.parent.score_hook)
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
