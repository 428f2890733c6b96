"""Likely causes of wrong answers in a run, from its samples
(:mod:`pytest_evals.scorers.near_misses`)."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_evals.core.reference import logprobs_in
from pytest_evals.core.result import AnyResult, GroupResult
from pytest_evals.core.task import Task
from pytest_evals.errors import StoreError
from pytest_evals.reports.strict import strict
from pytest_evals.scorers.near_misses import Answer, near_misses
from pytest_evals.store.history import EarlierRun, earlier_runs

_CHAT = (
    "the model has a chat template, and the prompts were sent without it; if it is a "
    "chat model, add --evals-apply-chat-template"
)
_RUNS = 20  # maximum number of earlier runs that are read
Row = Mapping[str, Any]


def diagnosed(
    run: EarlierRun, result: AnyResult, key: str = "", *, template: str = ""
) -> tuple[str, ...]:
    """Return the likely causes of wrong answers in a run.

    Args:
        result: The task; or the group, of which all tasks are looked at.
        key: Metric and filter that count answers as wrong; empty for the first ones.
        template: The chat template of the model if prompts are sent without it.
    """
    tasks = result.members if isinstance(result, GroupResult) else (result,)
    found: list[str] = []
    is_plain = False
    for one in tasks:
        try:
            rows = [*run.all_rows(one.task.name)]
        except StoreError:
            continue
        answers = [*_answers(rows, key)]
        named = f"{one.task.name}: " if isinstance(result, GroupResult) else ""
        found += [named + text for text in near_misses(answers, one.task.remedies)]
        if any(answer.is_wrong for answer in answers):
            first = (rows[0].get("arguments") or {}).get("gen_args_0") or {}
            is_plain = is_plain or isinstance(first.get("arg_0"), str)
    return (*found, *([_CHAT] if template and is_plain else []))


def earlier_near_misses(base: Path, task: Task) -> list[str]:
    """Return the likely causes of wrong answers in the last stored run of a task that
    has not changed since."""
    for run in earlier_runs(base, _RUNS):
        if task.name in run.tasks:
            stored = (run.results.get("configs") or {}).get(task.name)
            if not task.config or _config(stored) != _config(strict(task.config)):
                return []
            try:
                answers = [*_answers(run.all_rows(task.name), "")]
            except StoreError:
                return []
            return near_misses(answers, task.remedies)
    return []


def _config(config: Any) -> str:
    known = config if isinstance(config, dict) else {}
    return json.dumps(
        {k: v for k, v in known.items() if k != "metadata"}, sort_keys=True
    )


def _answers(rows: Iterable[Row], key: str) -> Iterator[Answer]:
    metric, _, filter_ = key.partition(",")
    seen: set[Any] = set()
    for row in rows:
        is_own = row.get("filter") == filter_ if key else row["doc_id"] not in seen
        if not is_own or row.get("status") != "scored" or row.get("excluded"):
            continue
        seen.add(row["doc_id"])
        value = row.get(key, row.get(metric)) if key else row.get("correct")
        if value not in (0, 1):  # not a metric of correct and wrong answers
            continue
        logprobs = logprobs_in(row)
        choice = None
        if len(logprobs) > 1 and all(x is not None for x in logprobs):
            choice = max(range(len(logprobs)), key=logprobs.__getitem__)
        yield Answer(
            text=None if logprobs else _text(row),
            targets=_targets(str(row.get("target", ""))),
            is_wrong=not value,
            is_cut="length" in _finishes(row),
            choice=choice,
            emptied_by=_emptied_by(row),
        )


def _emptied_by(row: Row) -> str:
    """Return the stop string of line breaks that may have ended an empty answer."""
    responses = row.get("resps") or [[""]]
    texts = [text for each in responses for text in each if isinstance(text, str)]
    if not texts or any(text.strip() for text in texts):
        return ""
    if "length" in _finishes(row):
        return ""
    settings = ((row.get("arguments") or {}).get("gen_args_0") or {}).get("arg_1")
    stops = settings.get("until") if isinstance(settings, dict) else None
    found = (one for one in stops or () if one and not str(one).strip())
    return str(next(found, ""))


def _text(row: Row) -> str:
    filtered: list[Any] = row.get("filtered_resps") or []
    if len(filtered) == 1 and isinstance(filtered[0], str):
        return filtered[0]
    return str(row.get("answer", ""))


def _targets(text: str) -> tuple[str, ...]:
    found = [text, *text.split(" | ")]
    if text.startswith("["):
        try:
            listed = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            listed = ()
        found += map(str, listed)
    return tuple(dict.fromkeys(found))


def _finishes(row: Row) -> list[str]:
    exchanges = row.get("exchanges") or ()
    finishes = (one.get("finish", "") for one in exchanges if not one.get("model"))
    return [*(row.get("finish") or ()), *finishes]
