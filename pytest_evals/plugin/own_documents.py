"""The documents of a worker of pytest-xdist: it creates items for its own shard only.

pytest-xdist collects everything in each worker, so eight workers would create each item
eight times. Here a worker collects one item for all documents of a task, then replaces
it by the node ids, which pytest-xdist compares. It computes its shard from the ids, and
creates the documents of the shard.

All documents are created if an option or another plugin may select or sort them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pytest

from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.settings.process import package_of
from pytest_evals.run.batches import Job
from pytest_evals.run.suite import TaskRun

_HOOKS = ("pytest_collection_modifyitems", "pytest_itemcollected")
"""Hooks that may change the items of a session, or their order."""
_THEIRS = frozenset({"_pytest", "xdist", "__channelexec__", "_hypothesis_pytestplugin"})
"""Packages that do not change documents. ``__channelexec__`` is the module of
pytest-xdist that execnet runs in a worker; hypothesis marks functions."""


class PendingDocuments(DocItem):
    """All documents of a task, until a worker of pytest-xdist knows its shard."""

    def __init__(self, *, run: TaskRun, **kwargs: Any) -> None:
        super().__init__(job=Job(run.task, -1), **kwargs)
        self.run = run

    @cached_property
    def all_created(self) -> dict[str, DocItem]:
        """All documents by node id."""
        ids, documents = self.run.document_ids(), self.parent.documents(self.run)
        return dict(zip(ids, documents, strict=True))

    def created(self, nodeids: Iterable[str]) -> list[DocItem]:
        """Return some of the documents; those that were created before are reused."""
        if "all_created" in vars(self):
            return [self.all_created[nodeid] for nodeid in nodeids]
        ids = self.run.document_ids()
        places = {nodeid: place for place, nodeid in enumerate(ids)}
        return self.parent.documents(self.run, [places[nodeid] for nodeid in nodeids])


class LazyDocument(str):
    """A document as its node id. Access to any other attribute of an item creates all
    documents of its task.

    Each task has a subclass, so that a document takes no more memory than its id.
    """

    __slots__ = ()
    in_package = False
    pending: PendingDocuments

    @property
    def nodeid(self) -> str:
        """Return the node id as a plain string."""
        return str.__str__(self)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the item."""
        return getattr(self.pending.all_created[self], name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of the item."""
        setattr(self.pending.all_created[self], name, value)


def is_observed(config: pytest.Config, ours: object) -> bool:
    """Whether another plugin may change the items of the session."""
    # pytest 8 wraps hooks with paths in functions, as attributes of config.hook.
    hooks = config.pluginmanager.hook
    return any(
        impl.plugin is not ours and package_of(impl.plugin) not in _THEIRS
        for name in _HOOKS
        for impl in getattr(hooks, name).get_hookimpls()
    )


def all_created(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield all items, those of pending documents in their place."""
    for item in items:
        if not isinstance(item, PendingDocuments):
            yield item
            continue
        for document in item.parent.documents(item.run):
            document.ihook.pytest_itemcollected(item=document)
            yield document


def make_lazy(items: list[pytest.Item]) -> None:
    """Replace pending documents by lazy ones."""
    lazy: list[Any] = []
    for item in items:
        if isinstance(item, PendingDocuments):
            kind = type("LazyDocument", (LazyDocument,), {"pending": item})
            lazy += map(kind, item.run.document_ids())
        else:
            lazy.append(item)
    items[:] = lazy


def create_own(items: list[pytest.Item], indices: Sequence[int]) -> list[pytest.Item]:
    """Return the items of this worker, and create those that are lazy."""
    by_task: dict[PendingDocuments, list[int]] = {}
    for position in indices:
        item: Any = items[position]
        if isinstance(item, LazyDocument):
            by_task.setdefault(item.pending, []).append(position)
    for pending, positions in by_task.items():
        documents = pending.created([str(items[n]) for n in positions])
        for position, document in zip(positions, documents, strict=True):
            items[position] = document
    return [items[position] for position in indices]
