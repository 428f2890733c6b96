"""``--evals-write-out``: show the prompts of the first documents before the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import pytest

from pytest_evals.core.model import RequestTokenizer
from pytest_evals.core.task import Task
from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.models.registry import open_tokenizer, parse_spec
from pytest_evals.plugin.documents import DocItem
from pytest_evals.plugin.session import SESSION
from pytest_evals.reports.details.prompts import prompt_lines
from pytest_evals.reports.escape import one_line
from pytest_evals.run.batches import ask


def documents_of(
    items: Sequence[pytest.Item],
) -> Iterator[tuple[Task, Mapping[int, str]]]:
    """Return the selected documents of each task, by position."""
    tasks: dict[str, tuple[Task, dict[int, str]]] = {}
    for item in items:
        if isinstance(item, DocItem):
            task, index = item.job.task, item.job.index
            _, documents = tasks.setdefault(task.name, (task, {}))
            documents[index] = item.name.partition("[")[2][:-1]
    yield from tasks.values()


def write_out_lines(
    config: pytest.Config, selected: Iterable[tuple[Task, Mapping[int, str]]]
) -> list[str]:
    """Return the lines of all tasks; none without the option. ``selected``: tasks
    with their documents, ids by position."""
    if SESSION not in config.stash or not config.stash[SESSION].options.write_out:
        return []
    session = config.stash[SESSION]
    spec = session.run.config.full_spec
    tokenizer, lines = _tokenizer(spec) if spec else (None, [])
    for task, documents in selected:
        for index, id_ in islice(documents.items(), session.options.write_out):
            lines += prompt_lines(ask(task, index), f"{task.name}[{id_}]", tokenizer)
    return lines


def _tokenizer(spec: str) -> tuple[RequestTokenizer | None, list[str]]:
    """Return the model's tokenizer, or a line with the reason why it is unavailable.
    Models of hooks have none."""
    try:
        parsed = parse_spec(spec)
    except OptionError:
        return None, []
    try:
        return open_tokenizer(parsed), []
    except EvalsError as error:
        return None, [f"evals: prompts without tokens: {one_line(error)}"]
