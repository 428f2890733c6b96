"""``--evals-write-out``: the prompts of the first documents, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import pytest

from pytest_evals.core.cut import Cutter
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.models.registry import open_cutter, parse_spec
from pytest_evals.plugin.nodes import DocItem
from pytest_evals.plugin.session import SESSION
from pytest_evals.reports.details.prompts import prompt_lines
from pytest_evals.reports.escape import one_line
from pytest_evals.run.plan import ask


def documents_of(
    items: Sequence[pytest.Item],
) -> Iterator[tuple[Task, Mapping[int, str]]]:
    """The selected documents of each task, position to id."""
    tasks: dict[str, tuple[Task, dict[int, str]]] = {}
    for item in items:
        if isinstance(item, DocItem):
            task, index = item.job.task, item.job.index
            _, documents = tasks.setdefault(task.name, (task, {}))
            documents[index] = item.name.partition("[")[2][:-1]
    yield from tasks.values()


def write_out_lines(
    config: pytest.Config, wanted: Iterable[tuple[Task, Mapping[int, str]]]
) -> list[str]:
    """The lines for all tasks; none if the option is not given.

    Args:
        config: pytest's configuration.
        wanted: Tasks with their documents, position to id.
    """
    if SESSION not in config.stash or not config.stash[SESSION].options.write_out:
        return []
    session = config.stash[SESSION]
    spec = session.run.config.full_spec
    cutter, lines = _cutter(spec) if spec else (None, [])
    for task, documents in wanted:
        for index, id_ in islice(documents.items(), session.options.write_out):
            lines += prompt_lines(ask(task, index), f"{task.name}[{id_}]", cutter)
    return lines


def _cutter(spec: str) -> tuple[Cutter | None, list[str]]:
    """The model's tokenizer; where it cannot be had, a line that says why. A kind of
    model that came by a hook is asked for nothing but answers."""
    try:
        parsed = parse_spec(spec)
    except OptionError:
        return None, []
    try:
        return open_cutter(parsed), []
    except EvalsError as error:
        return None, [f"evals: prompts without tokens: {one_line(error)}"]
