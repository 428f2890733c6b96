"""``--evals-shard=K/N``: run one part of a suite. Its gates are pending; the command
``merge`` judges them over all parts.

Every job computes the same parts, by the rule of workers. Each document, and each test
outside of evals, is in one part; tests that use the results run when parts are merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.nodes import GateItem
from pytest_evals.plugin.workers.sharding import shard_items
from pytest_evals.reports.escape import near

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession


class ShardMode:
    """Leaves the other parts out of the session, as a pytest plugin."""

    def __init__(self, session: EvalSession) -> None:
        self._session = session
        self._part, self._n = map(int, session.options.shard.split("/"))
        self._lines: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Keep the documents of this part, and all gates, once everything else has
        selected and sorted items."""
        yield
        ids = [item.nodeid for item in items]
        recorded = self._session.recorded_costs
        shards = shard_items(ids, self._session.suite, self._n, recorded=recorded)
        self._session.shared.cut = cut_hash(
            [[ids[i] for i in one] for one in shards.shards]
        )
        own = {*shards.shards[self._part - 1]}
        n_all = sum(isinstance(item, DocItem) for item in items)
        items[:] = [
            item
            for position, item in enumerate(items)
            if position in own or isinstance(item, GateItem)
        ]
        n = sum(isinstance(item, DocItem) for item in items)
        costs = ""
        if recorded and self._session.costs_run is not None:
            here = self._session.config.invocation_params.dir
            costs = f", by the costs in {near(self._session.costs_run.path, here)}"
        self._lines = [
            f"evals: part {self._part} of {self._n}: {n:,} of {n_all:,} documents"
            f"{costs}; gates are pending until the parts are merged"
        ]

    @pytest.hookimpl
    def pytest_report_collectionfinish(self) -> list[str]:
        """Show the number of documents in this part."""
        return self._lines


def cut_hash(shards: Sequence[Sequence[str]]) -> str:
    """Return a hash of the node ids in each part: equal if two jobs cut a suite
    alike."""
    lines = (f"{part} {nodeid}\n" for part, ids in enumerate(shards) for nodeid in ids)
    return hashlib.sha256("".join(lines).encode("utf-8", "replace")).hexdigest()
