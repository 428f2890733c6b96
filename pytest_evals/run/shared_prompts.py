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
        known: dict[int, Asked] = {}

        def ask(index: int) -> Asked:
            asked = known.get(index)
            if asked is None:
                asked = task.ask(index)
                if self._n_characters < MOST_CHARACTERS:
                    self._n_characters += weight_of(asked.requests)
                    known[index] = asked
            return asked._replace(doc=copy(asked.doc))  # its model may change it

        return replace(task, ask=ask)
