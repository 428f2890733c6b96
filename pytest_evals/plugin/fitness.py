"""Whether a model can run the tasks of a session, as far as it is known without opening
it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError
from pytest_evals.models.spec import check_spec, parse_spec, why_unfit

__all__ = ["check_model"]

_SHOWN = 10
"""Tasks that a message lists."""


def check_model(text: str, tasks: Iterable[Task], *, chat: bool) -> None:
    """Refuse a model that cannot exist, or that cannot answer a task.

    Args:
        text: The model's spec.
        tasks: Those whose documents will run.
        chat: Whether prompts are chats.

    Raises:
        pytest.UsageError: The spec has a mistake; or with the reason, and all tasks
            that it is about.
    """
    unfit: dict[str, list[str]] = {}
    try:
        spec = parse_spec(text)
        check_spec(spec)
        for task in tasks:
            why = why_unfit(spec, task.output_type, chat=chat)
            if why:
                told = f"{task.name} ({task.output_type}, {task.source})"
                unfit.setdefault(why, []).append(told)
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None
    if unfit:
        raise pytest.UsageError("\n".join(_told(*one) for one in unfit.items()))


def _told(why: str, tasks: list[str]) -> str:
    what, _, fix = why.partition("\n")
    more = f" and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else ""
    return f"{what}: {', '.join(tasks[:_SHOWN])}{more}\n{fix}"
