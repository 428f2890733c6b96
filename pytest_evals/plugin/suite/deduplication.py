"""Tasks and groups that several collectors reach: one of them collects each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_evals.run.suite import GroupRun, Suite, TaskRun


class Deduplication:
    """Assigns each task and group to the first collector that reaches it.

    If the command line names a part of a file, all collectors of its tasks collect
    them, because the parts are not known here;
    :mod:`~pytest_evals.plugin.execution.hooks` removes duplicates.
    """

    def __init__(self, config: pytest.Config) -> None:
        base = config.invocation_params.dir
        parts = (str(arg).partition("::") for arg in config.args)
        self._named_files = {base / path for path, colons, _ in parts if colons}
        self._collectors: dict[str, pytest.Collector] = {}

    def take(self, run: TaskRun | GroupRun, collector: pytest.Collector) -> bool:
        """Return whether the collector collects the documents of a task, or the gates
        of a group."""
        if run.path in self._named_files or self._named_files & {collector.path}:
            return True
        name = f"{run.nodeid}[{run.label}]"
        return self._collectors.setdefault(name, collector) is collector


def refuse_equal_ids(suites: Sequence[Suite]) -> None:
    """Refuse names of models with which two documents have one id: document ``b-1`` of
    model ``a``, and document ``1`` of model ``a-b``.

    Raises:
        pytest.UsageError: With the id.
    """
    seen: dict[str, str] = {}
    for known in suites:
        names = [one.model for one in suites if one is not known]
        if not any(
            f"{one}-".startswith(f"{known.model}-")
            or f"{known.model}-".startswith(f"{one}-")
            for one in names
        ):
            continue
        for nodeid in (n for run in known.tasks.values() for n in run.document_ids()):
            other = seen.setdefault(nodeid, known.model)
            if other != known.model:
                raise pytest.UsageError(
                    f"the models {other!r} and {known.model!r} both have a document "
                    f"{nodeid}\n  fix: name one of them: --model=NAME=SPEC"
                )
