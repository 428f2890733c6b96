"""Documents that several models get: each is rendered once."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from pytest_evals.core.request import weight_of
from pytest_evals.core.task import Asked, Group, Task

MOST_CHARACTERS = 2**28
"""Characters of the prompts, plus bytes of images, that are kept for the next models;
others are rendered again."""


class PromptCache:
    """Keeps the rendered documents of tasks."""

    def __init__(self) -> None:
        self._n_characters = 0

    def shared(self, one: Task | Group) -> Task | Group:
        """Return a task or group whose documents are rendered once."""
        if isinstance(one, Group):
            return replace(one, children=tuple(map(self.shared, one.children)))
        return self.shared_task(one)

    def shared_task(self, task: Task) -> Task:
        """Return a task whose documents are rendered once."""
        return replace(task, ask=_SharedTask(self, task))

    def has_room(self, asked: Asked) -> bool:
        """Return whether a document is kept, and count it."""
        if self._n_characters >= MOST_CHARACTERS:
            return False
        self._n_characters += weight_of(asked.requests)
        return True


class _SharedTask:
    """The documents of a task, as ``Task.ask``."""

    def __init__(self, cache: PromptCache, task: Task) -> None:
        self._cache, self._ask = cache, task.ask
        self._known: dict[int, Asked] = {}

    def __call__(self, index: int) -> Asked:
        """Return a document, which its model may change, and its requests."""
        asked = self._known.get(index)
        if asked is None:
            asked = self._ask(index)
            if self._cache.has_room(asked):
                self._known[index] = asked
        return asked._replace(doc=copy(asked.doc))
