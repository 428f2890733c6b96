"""A run as ``results.json``: lm-eval's schema, and more.

What reads lm-eval's results (0.4.13) reads these. Ours are ``schema_version``,
``verdict``, ``exit_code``, ``gates``, ``counts``, ``model_info``, ``options``,
``partial`` and ``notes``. The JSON is strict: there is no NaN in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.core.result import RunResult, TaskResult
from pytest_evals.reports.strict import strict

__all__ = ["SCHEMA_VERSION", "results_json"]

SCHEMA_VERSION = 1
"""Raised when a field of ours changes its meaning."""
_SECRET = re.compile(r"(?i)((?:key|token|secret|password)=)[^,]*")
_UNSAFE = re.compile(r'["<>:/|\\?*\[\]]+')
_WORST_FIRST = (
    Outcome.FAILED,
    Outcome.INVALID,
    Outcome.INCONCLUSIVE,
    Outcome.SKIPPED,
    Outcome.PASSED,
)


def results_json(
    result: RunResult,
    *,
    exit_code: int | None = None,
    environment: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The run as strict JSON.

    Args:
        result: The run.
        exit_code: What the process ends with, if it is known.
        environment: Versions and the like, for the top level: ``git_hash``,
            ``transformers_version``, ``pretty_env_info`` and whatever else is known.
    """
    notes: list[str] = []
    by_name = {task.task.name: task for task in result.tasks}
    everything = {
        "results": {name: _numbers(task) for name, task in by_name.items()},
        "group_subtasks": {},
        "configs": {name: task.task.config for name, task in by_name.items()},
        "versions": {name: _version(task) for name, task in by_name.items()},
        "n-shot": {name: task.task.n_shots for name, task in by_name.items()},
        "higher_is_better": {
            name: {metric.name: metric.higher_is_better for metric in task.metrics}
            for name, task in by_name.items()
        },
        "n-samples": {
            name: {"original": task.n_total, "effective": _effective(task)}
            for name, task in by_name.items()
        },
        "config": _config(result),
        "git_hash": None,
        "date": result.started,
        "transformers_version": None,
        "task_hashes": {},
        **_model(result),
        "total_evaluation_time_seconds": str(result.elapsed_s),
        **_ours(result, exit_code),
        **(environment or {}),
        "notes": notes,
    }
    # The notes fill while the rest is made strict; they come last and are shared.
    return {**strict(everything, notes), "notes": notes}


def _numbers(result: TaskResult) -> dict[str, Any]:
    task = result.task
    numbers: dict[str, Any] = {
        "name": task.name,
        "alias": task.alias or task.name,
        "sample_len": _effective(result),
    }
    for metric in result.metrics:
        estimate = metric.estimate
        numbers[metric.key] = estimate.value if estimate else None
        stderr = estimate.stderr if estimate else None
        key = f"{metric.name}_stderr,{metric.filter}"
        numbers[key] = "N/A" if stderr is None else stderr
    return numbers


def _effective(result: TaskResult) -> int:
    """Documents of the metric that has most of them, as lm-eval counts."""
    return max((metric.n_scored for metric in result.metrics), default=0)


def _version(result: TaskResult) -> str | int | float:
    version = result.task.version
    return "Yaml" if version is None else version


def _config(result: RunResult) -> dict[str, Any]:
    """lm-eval's ``config``, as far as there is something to say."""
    kind, _, arguments = _spec(result).partition(":")
    options, info = result.options, result.model_info
    return {
        "model": kind,
        "model_args": arguments,
        "model_num_parameters": info.get("num_parameters"),
        "model_dtype": info.get("dtype"),
        "model_revision": info.get("revision"),
        "device": info.get("device") or options.get("device"),
        "limit": options.get("limit"),
        "gen_kwargs": options.get("gen_kwargs"),
        "fewshot_seed": options.get("seed"),
    }


def _model(result: RunResult) -> dict[str, Any]:
    """lm-eval's fields about the model and how it is spoken to."""
    kind, colon, rest = _spec(result).partition(":")
    name = (rest if colon else kind).partition(",")[0]
    instruction = result.options.get("system_instruction") or None
    return {
        "model_source": kind if colon else None,
        "model_name": name,
        "model_name_sanitized": _UNSAFE.sub("__", name),
        "system_instruction": instruction,
        "system_instruction_sha": (
            hashlib.sha256(str(instruction).encode()).hexdigest()
            if instruction
            else None
        ),
        "fewshot_as_multiturn": result.options.get("fewshot_as_multiturn"),
    }


def _spec(result: RunResult) -> str:
    return _SECRET.sub(r"\1***", result.model)


def _ours(result: RunResult, exit_code: int | None) -> dict[str, Any]:
    options = {**result.options}
    if isinstance(options.get("model"), str):
        options["model"] = _SECRET.sub(r"\1***", options["model"])
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": _verdict(result.verdicts),
        "exit_code": exit_code,
        "gates": [_gate(verdict) for verdict in result.verdicts],
        "counts": {task.task.name: _counts(task) for task in result.tasks},
        "model_info": result.model_info,
        "options": options,
        "model_seconds": result.model_s,
        "n_requests": result.n_requests,
        "partial": result.partial,
    }


def _verdict(verdicts: Sequence[Verdict]) -> str | None:
    """The worst outcome of any gate, ``None`` if there are none."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return next((one.value for one in _WORST_FIRST if one in outcomes), None)


def _gate(verdict: Verdict) -> dict[str, Any]:
    gate, metric = verdict.gate, verdict.metric
    estimate = metric.estimate if metric else None
    return {
        "id": gate.id,
        "task": gate.task,
        "metric": gate.metric or None,
        "filter": metric.filter if metric else gate.filter or None,
        "claim": gate.text,
        "bounds": [{"op": b.op, "value": float(b.value)} for b in gate.bounds],
        "must_pass": gate.must_pass,
        "source": str(gate.source),
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "value": estimate.value if estimate else None,
        "stderr": estimate.stderr if estimate else None,
        "n_scored": metric.n_scored if metric else None,
        "short": verdict.short,
        "n_short": verdict.n_short,
        "documents": verdict.documents,
    }


def _counts(result: TaskResult) -> dict[str, int]:
    return {
        "total": result.n_total,
        "selected": result.n_selected,
        "correct": result.n_correct,
        "wrong": result.n_wrong,
        "errored": result.n_errored,
        "unscored": result.n_unscored,
        "missing": result.n_missing,
        "truncated": result.n_truncated,
        "prompt_tokens": result.n_prompt_tokens,
        "tokens": result.n_tokens,
    }
