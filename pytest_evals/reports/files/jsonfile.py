"""A run as ``results.json``: lm-eval's schema, and more.

What reads lm-eval's results (0.4.13) reads these. Ours are ``schema_version``,
``verdict``, ``exit_code``, ``gates``, ``counts``, ``model_info``, ``judged``,
``judges``, ``judge_errors``, ``options``, ``warnings``, ``partial``, ``sample_files``,
``node_ids`` and ``notes``. The JSON is strict: there is no NaN in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_evals.core.gate import WORST_FIRST, Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.result import GroupResult, RunResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import Place
from pytest_evals.reports.files.model import (
    config_of,
    judged_by,
    model_arguments,
    speech_of,
    tokenizer_of,
)
from pytest_evals.reports.overview.judge_errors import (
    judge_error_lines,
    jury_line,
    position_line,
)
from pytest_evals.reports.strict import strict
from pytest_evals.scorers.judge_error import (
    judge_errors,
    jury_agreements,
    position_biases,
)
from pytest_evals.store.schema import SCHEMAS

_NO_ENVIRONMENT: Mapping[str, str | None] = {
    "git_hash": None,
    "pretty_env_info": "",
    "transformers_version": "N/A",
    "lm_eval_version": "N/A",
    "upper_git_hash": None,
}
"""lm-eval's values for an unknown environment."""


def results_json(
    result: RunResult,
    *,
    exit_code: int | None = None,
    environment: Mapping[str, Any] | None = None,
    task_hashes: Mapping[str, str] | None = None,
    sample_files: Mapping[str, str] | None = None,
    node_ids: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the run as strict JSON."""
    notes: list[str] = []
    by_name = {task.task.name: task for task in result.tasks}
    known = {**_NO_ENVIRONMENT, **(environment or {})}
    versions = {name: version_of(task.task) for name, task in by_name.items()}
    shots = {name: task.task.n_shots for name, task in by_name.items()}
    everything = {
        **group_results(
            {name: _numbers(task) for name, task in by_name.items()},
            result.groups,
            result.overall,
        ),
        "group_subtasks": group_members(result.groups),
        "configs": _configs(result),
        "versions": versions | {g.group.name: g.group.version for g in result.groups},
        "n-shot": with_groups_shots(shots, result.groups),
        "higher_is_better": with_groups_directions(
            {
                name: {metric.name: metric.higher_is_better for metric in task.metrics}
                for name, task in by_name.items()
            },
            result.groups,
        ),
        "n-samples": {
            name: {"original": task.n_total, "effective": task.sample_len}
            for name, task in by_name.items()
        },
        "config": config_of(result),
        "git_hash": known.pop("git_hash"),
        "date": result.started,
        **{name: known.pop(name) for name in _NO_ENVIRONMENT if name in known},
        **tokenizer_of(result.model_info),
        "task_hashes": dict(task_hashes or {}),
        **speech_of(result),
        "total_evaluation_time_seconds": str(result.elapsed_s),
        **_ours(result, exit_code),
        "sample_files": dict(sample_files or {}),
        **({"node_ids": dict(node_ids)} if node_ids else {}),
        **known,
        "notes": notes,
    }
    # The notes fill while the rest is made strict; they come last and are shared.
    return {**strict(everything, notes), "notes": notes}


def _numbers(result: TaskResult) -> dict[str, Any]:
    task = result.task
    numbers: dict[str, Any] = {
        "name": task.name,
        "alias": task.alias or task.name,
        "sample_len": result.sample_len,
    }
    return numbers | metric_values(result.metrics)


def version_of(task: Task) -> str | int | float:
    """Return the task's version, ``Yaml`` without one, as lm-eval."""
    return "Yaml" if task.version is None else task.version


def _configs(result: RunResult) -> dict[str, dict[str, Any]]:
    """Return the resolved configurations; as in lm-eval, ``metadata`` ends with the
    model's arguments and the file. A task without a file has an empty one."""
    model = model_arguments(result.model)
    configs = {}
    for one in result.tasks:
        config = {**one.task.config}
        if config:
            where = {"config_source": str(Place(one.task.source.path))}
            config["metadata"] = {**config.get("metadata", {}), **model, **where}
        configs[one.task.name] = config
    return configs


def _ours(result: RunResult, exit_code: int | None) -> dict[str, Any]:
    options = result.options
    info = {k: v for k, v in result.model_info.items() if k != "chat_template"}
    return {
        "schema_version": SCHEMAS["results"].current,
        "verdict": _verdict(result.verdicts),
        "exit_code": exit_code,
        "gates": [_gate(verdict) for verdict in result.verdicts],
        "counts": {task.task.name: _counts(task) for task in result.tasks},
        "model_info": info,
        "judged": {
            task.task.name: judged_by(task.task, str(options.get("judge") or ""))
            for task in result.tasks
            if task.task.models
        },
        "judges": {name: dict(info) for name, info in result.judges.items()},
        **_judge_errors(result),
        "options": dict(options),
        "warnings": list(result.warnings),
        "model_seconds": result.model_s,
        "n_requests": result.n_requests,
        "n_reused": result.reuse.n_reused,
        "partial": result.partial,
    }


def _judge_errors(result: RunResult) -> dict[str, Any]:
    """Return the measured errors of judges, by task; empty without any."""
    by_task = {
        task.task.name: [
            {**error.as_json(), "text": [*judge_error_lines(error)]}
            for error in judge_errors(task)
        ]
        + [
            {**asdict(bias), "text": [position_line(bias)]}
            for bias in position_biases(task)
        ]
        + [{**one.as_json(), "text": [jury_line(one)]} for one in jury_agreements(task)]
        for task in result.tasks
    }
    found = {name: errors for name, errors in by_task.items() if errors}
    return {"judge_errors": found} if found else {}


def _verdict(verdicts: Sequence[Verdict]) -> str | None:
    """Return the worst outcome of all gates, ``None`` without gates."""
    judged = [verdict for verdict in verdicts if not verdict.left_out]
    outcomes = {verdict.outcome for verdict in judged or verdicts}
    return next((one.value for one in WORST_FIRST if one in outcomes), None)


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
        "early": verdict.early,
        "conclusion": verdict.conclusion,
        "reason": verdict.reason,
        "method": verdict.method,
        "value": estimate.value if estimate else None,
        "stderr": estimate.stderr if estimate else None,
        "n_scored": metric.n_scored if metric else None,
        "over": None if gate.is_about_documents else gate.over,
        "interval": _interval(verdict),
        "baseline": gate.baseline or None,
        "change": asdict(verdict.change) if verdict.change else None,
        "cluster": gate.cluster or None,
        **({"when": {key: list(one) for key, one in gate.when}} if gate.when else {}),
        "family": None if verdict.p_fails is None else gate.family or None,
        "p_value": verdict.p_fails,
        "p_adjusted": verdict.p_adjusted,
        "notes": verdict.notes,
        "short": verdict.short,
        "n_short": verdict.n_short,
        "documents": verdict.documents,
    }


def _interval(verdict: Verdict) -> dict[str, Any] | None:
    found = verdict.interval
    if found is None:
        return None
    return {
        "low": found.low,
        "high": found.high,
        "method": found.method,
        "confidence": verdict.gate.confidence,
        "policy": verdict.policy,
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
        **({"excluded": result.n_excluded} if result.n_excluded else {}),
        "truncated": result.n_truncated,
        **({"cut_short": result.n_cut_short} if result.n_cut_short else {}),
        "prompt_tokens": result.n_prompt_tokens,
        "tokens": result.n_tokens,
    }


Groups = Sequence[GroupResult]
Directions = Mapping[str, bool | None]


def metric_values(metrics: Sequence[MetricResult]) -> dict[str, Any]:
    """``acc,none`` and ``acc_stderr,none`` for each metric."""
    values: dict[str, Any] = {}
    for metric in metrics:
        estimate = metric.estimate
        values[metric.key] = estimate.value if estimate else None
        stderr = estimate.stderr if estimate else None
        key = f"{metric.name}_stderr,{metric.filter}"
        values[key] = "N/A" if stderr is None else stderr
    return values


def group_results(
    tasks: Mapping[str, Any], groups: Groups, overall: Groups
) -> dict[str, Any]:
    """``results`` of tasks and groups, and ``groups`` if any group has numbers."""
    mine = {one.group.name: _group_numbers(one) for one in groups}
    averages = {one.group.name: _group_numbers(one) for one in overall}
    everything: dict[str, Any] = {"results": {**tasks, **mine, **averages}}
    with_numbers = {
        one.group.name: mine[one.group.name] for one in groups if one.group.aggregates
    }
    if with_numbers:
        everything["groups"] = with_numbers
    return everything


def _group_numbers(result: GroupResult) -> dict[str, Any]:
    group = result.group
    numbers: dict[str, Any] = {"alias": group.alias or group.name, "name": group.name}
    if not group.aggregates:
        return numbers
    numbers |= {"sample_len": result.sample_len, **metric_values(result.metrics)}
    if result.sample_counts:
        numbers["sample_count"] = dict(result.sample_counts)
    return numbers


def group_members(groups: Groups) -> dict[str, list[str]]:
    """Return ``group_subtasks``: the names of the members of each group."""
    return {one.group.name: _children(one) for one in groups}


def _children(result: GroupResult) -> list[str]:
    return [child.name for child in result.group.children]


def with_groups_shots(tasks: Mapping[str, int], groups: Groups) -> dict[str, int]:
    """Return ``n-shot``: a group has the number that its own tasks have in common.

    As in lm-eval, groups come before the groups that they contain, which therefore do
    not count.
    """
    shots = dict(tasks)
    for one in groups:
        numbers = {shots[name] for name in _children(one) if name in shots}
        if len(numbers) == 1:
            shots[one.group.name] = numbers.pop()
    return shots


def with_groups_directions(
    tasks: Mapping[str, Directions], groups: Groups
) -> dict[str, Directions]:
    """Return ``higher_is_better``: a group has the metrics of all its members, without
    a direction if members differ."""
    directions = dict(tasks)
    for one in groups:
        merged: dict[str, bool | None] = {}
        for name in _children(one):
            for metric, direction in directions.get(name, {}).items():
                known = merged.setdefault(metric, direction)
                if known != direction:
                    merged[metric] = None
        if merged:
            directions[one.group.name] = merged
    return directions
