"""The documents of a worker of pytest-xdist: it creates items for its own shard only.

pytest-xdist collects everything in each worker, so eight workers would create each item
eight times. Here a worker collects one item for all documents of a task. Once it has
collected, it computes its shard from the ids and creates its own documents; of all
others it keeps the node ids, which pytest-xdist compares.

All documents are created if an option or another plugin may look at them before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pytest_evals.plugin.nodes import PendingDocuments
from pytest_evals.plugin.settings.process import WorkerAssignment
from pytest_evals.plugin.workers.sharding import shard_items
from pytest_evals.run.suite import Suite

_HOOKS = (
    *("pytest_collection_modifyitems", "pytest_itemcollected"),
    *("pytest_collection_finish", "pytest_report_collectionfinish"),
    "pytest_deselected",
)
"""Hooks that get the items of a session."""
_THEIRS = frozenset({"_pytest", "xdist", "__channelexec__"})
"""Packages that need no items of other workers' documents. The last one is the module
of pytest-xdist that execnet runs in a worker."""


class OtherDocument(str):
    """A document of another worker's shard: its node id, in place of the item."""

    __slots__ = ()
    in_package = False

    @property
    def nodeid(self) -> str:
        """Return the node id as a plain string."""
        return str.__str__(self)


def has_pending(items: Sequence[pytest.Item]) -> bool:
    """Whether documents are still pending."""
    return any(isinstance(item, PendingDocuments) for item in items)


def is_observed(config: pytest.Config, ours: object) -> bool:
    """Whether another plugin gets the items of the session.

    Args:
        ours: The plugin of ours that may get them.
    """
    # pytest 8 wraps hooks with paths in functions, as attributes of config.hook.
    hooks = config.pluginmanager.hook
    return any(
        impl.plugin is not ours and _package_of(impl.plugin) not in _THEIRS
        for name in _HOOKS
        for impl in getattr(hooks, name).get_hookimpls()
    )


def _package_of(plugin: object) -> str:
    name: str = getattr(plugin, "__name__", type(plugin).__module__)
    return name.partition(".")[0]


def create_all(items: list[pytest.Item]) -> None:
    """Replace pending documents by their items."""
    items[:] = [one for item in items for one in _created(item)]


def _created(item: pytest.Item) -> Iterator[pytest.Item]:
    if not isinstance(item, PendingDocuments):
        yield item
        return
    for document in item.parent.documents(item.run):
        document.ihook.pytest_itemcollected(item=document)
        yield document


def create_own(
    known: Suite, assignment: WorkerAssignment, items: list[pytest.Item]
) -> list[int]:
    """Replace pending documents by the items of this worker's shard and the ids of all
    others.

    Args:
        items: Its items in the order they run; the list changes.

    Returns:
        The positions of the items of this worker.
    """
    ids = [nodeid for item in items for nodeid in _ids_of(item)]
    own = assignment.todo
    if own is None:
        own = shard_items(ids, known, assignment.n).shards[assignment.slot]
    chosen = frozenset(own)
    created: list[Any] = []
    for item in items:
        if isinstance(item, PendingDocuments):
            start, n = len(created), len(item.run.ids)
            places = [place for place in range(n) if start + place in chosen]
            created += map(OtherDocument, ids[start : start + n])
            for place, document in zip(
                places, item.parent.documents(item.run, places), strict=True
            ):
                created[start + place] = document
        else:
            created.append(item)
    items[:] = created
    return own


def _ids_of(item: pytest.Item) -> Iterator[str]:
    if isinstance(item, PendingDocuments):
        yield from (f"{item.run.nodeid}[{id_}]" for id_ in item.run.ids)
    else:
        yield item.nodeid
