"""Compare a run with a baseline, and save it as one (``--evals-compare`` and
``--evals-save-baseline``). It reads the files of the run, so later calls agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pytest_evals.core.comparison import Comparison, DocumentChange, MetricChange
from pytest_evals.core.gate import Outcome
from pytest_evals.core.metric import Metric
from pytest_evals.core.reference import MIN_OVERLAP
from pytest_evals.core.result import RunResult, broken_metrics
from pytest_evals.errors import StoreError, plural
from pytest_evals.gates.documents import field_in
from pytest_evals.gates.terms import figure, shown_change, suffix
from pytest_evals.run.metric_changes import (
    MEAN,
    Estimates,
    group_estimates,
    metric_changes,
    paired_estimates,
)
from pytest_evals.scorers.metrics import METRICS, MetricSpec, metric
from pytest_evals.store.baselines import save_baseline
from pytest_evals.store.document_pairs import (
    Pair,
    Pairing,
    document_change,
    firsts,
    pairing_of,
    values_by_key,
)
from pytest_evals.store.files import write_json
from pytest_evals.store.history import EarlierRun, read_run, with_names_of
from pytest_evals.store.run_differences import run_differences
from pytest_evals.store.run_settings import Side, is_sample, setting_changes

Numbers = tuple[Mapping[str, Any], Mapping[str, Any]]
Methods = Mapping[tuple[str, str], Metric]
"""Task and key of a metric → its definition."""


def changes(name: str, baseline: EarlierRun, run: EarlierRun) -> Comparison:
    """The changes from one stored run to another. Raises ``StoreError`` if one of them
    cannot be read."""
    ids = run.results.get("node_ids") or {}
    before = side_of(with_names_of(baseline, ids))
    return paired(name, before, side_of(run)).comparison


def compared(
    name: str,
    baseline: EarlierRun,
    path: Path,
    result: RunResult,
    *,
    min_overlap: float = MIN_OVERLAP,
) -> Comparison:
    """Write the changes to ``comparison.json`` next to the results, and return them.
    Raises ``StoreError`` if a run cannot be read, or the file cannot be written."""
    both, methods = (side_of(baseline), side_of(read_run(path))), methods_of([result])
    comparison = paired(name, *both, methods, min_overlap=min_overlap).comparison
    write_json(path / "comparison.json", asdict(comparison))
    return comparison


def methods_of(results: Iterable[RunResult]) -> Methods:
    """Return the definitions of the metrics of runs."""
    return {
        (task.task.name, metric.key): metric.how
        for result in results
        for task in result.tasks
        for metric in task.metrics
        if metric.how is not None
    }


def summary_of(found: Comparison) -> dict[str, Any]:
    """Return the ``comparison`` of ``results.json``: the changes with the numbers of
    documents that changed, instead of these documents."""
    counts = {"n_worse": len(found.worse), "n_better": len(found.better)}
    rest = {k: v for k, v in asdict(found).items() if k not in ("worse", "better")}
    return {**rest, **counts}


def saved(
    base: Path, name: str, path: Path, result: RunResult, *, failure: str, consent: str
) -> Path:
    """Save a run as a baseline; return its folder.

    Args:
        failure: Why the run failed, see :func:`failure_of`; empty to save it anyway.
        consent: The option that saves a failed run, for the message.

    Raises:
        StoreError: The run is partial or failed, or the baseline cannot be written.
    """
    why = result.partial or (f"{failure}; {consent} saves it anyway" if failure else "")
    if why:
        raise StoreError(f"baseline {name!r} is not saved: {why}")
    return save_baseline(base, name, read_run(path))


def failure_of(result: RunResult, is_missing: Callable[[str], bool]) -> str:
    """Why a run failed: its unscored documents, metrics without a value, or failed
    gates; empty if it did not.

    Gates on a baseline that does not exist yet are ignored, so that two baselines that
    refer to each other can be created."""
    lacking = sum(task.n_errored + task.n_unscored for task in result.tasks)
    if lacking:
        return f"{plural(lacking, 'document')} could not be scored"
    if broken := broken_metrics(result.tasks):
        return f"{broken[0]} has no value"
    failed = [
        one
        for one in result.verdicts
        if one.is_red
        and one.mark != "xfail"
        and not (one.gate.baseline and is_missing(one.gate.baseline))
    ]
    if not failed:
        return ""
    gate, outcome = failed[0].gate, failed[0].outcome
    verb = "failed" if outcome is Outcome.FAILED else f"is {outcome.value}"
    more = f", and {len(failed) - 1} more" if failed[1:] else ""
    return f"gate {gate.task}::{gate.id} {verb}{more}"


def baseline_lines(name: str, result: RunResult) -> Iterator[str]:
    """The distance of a run that becomes a baseline from each other baseline of its
    gates, so that small drops from release to release do not add up unseen."""
    for verdict in result.verdicts:
        gate, change = verdict.gate, verdict.change
        if gate.margin is None or gate.baseline in ("", name):
            continue
        about = f"{gate.task}::{gate.metric}"
        if change is None:
            why = verdict.reason
            yield f"{about}: distance from {gate.baseline} unknown: {why}"
            continue
        moved = shown_change(change.difference, change.unit).lstrip("+-")
        where = "below" if change.difference < 0 else "above"
        yield (
            f"{about}: {moved}{suffix(change.unit)} {where} {gate.baseline} "
            f"({figure(change.before)} -> {figure(change.now)}; allowed: {gate.margin})"
        )


def side_of(run: EarlierRun) -> Side:
    """Return a stored run as a side of a comparison. Raises ``StoreError`` if it cannot
    be read."""
    return Side(
        results=run.results, rows={task: list(run.all_rows(task)) for task in run.tasks}
    )


class PairedRuns(NamedTuple):
    """A run compared with a baseline. ``estimates``: the changes of the metrics of each
    task and group."""

    comparison: Comparison
    estimates: Mapping[str, Estimates]


def paired(
    name: str,
    before: Side,
    now: Side,
    methods: Methods | None = None,
    *,
    min_overlap: float = MIN_OVERLAP,
) -> PairedRuns:
    """Compare a run with a baseline, with the estimates of all changes."""
    new = [task for task in now.rows if task not in before.rows]
    found = {
        task: _compared_task(task, before, now, methods or {}, min_overlap)
        for task in now.rows
        if task not in new
    }
    differences = [f"{task}: new, not in {name}" for task in new]
    differences += [one.difference for one in found.values() if one.difference]
    refused = [f"{task}: {one.refused}" for task, one in found.items() if one.refused]
    metrics = [metric for one in found.values() for metric in one.metrics]
    estimates = {task: one.estimates for task, one in found.items() if not one.refused}
    of_groups: dict[str, Estimates] = {}
    differing = {*new, *(task for task, one in found.items() if one.difference)}
    for group, tasks in _groups(before, now).items():
        missing = [task for task in tasks if task not in estimates]
        if bad := [task for task in missing if task in found]:
            refused.append(f"{group}: contains {', '.join(dict.fromkeys(bad))}")
        elif differing.intersection(tasks):
            differences.append(f"{group}: not compared, its documents differ")
        elif not missing:
            numbers = _numbers(group, before, now)
            sizes = {
                task: known["sample_len"]
                for task in tasks
                if (known := now.of("results", task)) and "sample_len" in known
            }
            changes = group_estimates(numbers, tasks, estimates, sizes)
            metrics = [*_metrics(group, numbers, now, changes), *metrics]
            of_groups[group] = changes
    comparison = Comparison(
        name=name,
        metrics=tuple(metrics),
        worse=tuple(change for one in found.values() for change in one.worse),
        better=tuple(change for one in found.values() for change in one.better),
        n_paired=sum(one.n_paired for one in found.values()),
        refused=tuple(refused),
        warnings=tuple(differences),
        differences=run_differences(
            before, now, {task: one.pairs for task, one in found.items()}
        ),
    )
    return PairedRuns(comparison, {**estimates, **of_groups})


class _ComparedTask(NamedTuple):
    """A task in both runs."""

    refused: str = ""  # why it cannot be compared; empty if it can
    difference: str = ""  # the documents that only one run has, as text
    estimates: Estimates = MappingProxyType({})
    metrics: tuple[MetricChange, ...] = ()
    worse: tuple[DocumentChange, ...] = ()
    better: tuple[DocumentChange, ...] = ()
    n_paired: int = 0  # documents with a score in both
    pairs: Sequence[Pair] = ()  # documents of both


def _compared_task(
    task: str, before: Side, now: Side, methods: Methods, min_overlap: float
) -> _ComparedTask:
    faults = [*setting_changes(task, before, now)]
    pairing = pairing_of(task, before, now)
    if pairing.changes and not faults:
        faults = [*filter(None, [pairing.overlap.fault(min_overlap)])]
    if faults:
        return _ComparedTask(refused="; ".join(faults), pairs=pairing.both)
    estimates = _estimates(task, before, now, pairing, methods)
    numbers = _numbers(task, before, now)
    if pairing.changes or is_sample(task, before, now):
        known = {k: one for k, one in estimates.items() if not isinstance(one, str)}
        numbers = (
            {key: float(one.before) for key, one in known.items()},
            {key: float(one.now) for key, one in known.items()},
        )
    difference = f"{task}: {pairing.overlap.text}" if pairing.changes else ""
    changed: dict[object, list[DocumentChange]] = {}
    for old, row in pairing.same:
        correct = old.get("correct"), row.get("correct")
        if correct in _TURNED:
            changed.setdefault(correct, []).append(document_change(task, old, row))
    return _ComparedTask(
        difference=difference,
        estimates=estimates,
        metrics=tuple(_metrics(task, numbers, now, estimates)),
        worse=tuple(changed.get(_TURNED[0], ())),
        better=tuple(changed.get(_TURNED[1], ())),
        n_paired=sum(
            old.get("status") == row.get("status") == "scored"
            for old, row in pairing.same
        ),
        pairs=pairing.both,
    )


_TURNED = ((True, False), (False, True))
"""Whether a document that became worse, or better, was correct before and is now."""


def _numbers(name: str, before: Side, now: Side) -> Numbers:
    return before.of("results", name) or {}, now.of("results", name) or {}


def _metrics(
    name: str, numbers: Numbers, now: Side, estimates: Estimates
) -> Iterator[MetricChange]:
    """Yield the changes of the metrics of a task or group. ``numbers``: its numbers in
    the baseline and in this run."""
    directions = now.of("higher_is_better", name) or {}
    return metric_changes(name, numbers, directions, estimates)


def _estimates(
    task: str, before: Side, now: Side, pairing: Pairing, methods: Methods
) -> Estimates:
    def candidates(key: str) -> Iterator[Metric]:
        name, known = key.partition(",")[0], methods.get((task, key))
        if known is not None:
            yield known
            return
        if name in METRICS:
            kind = METRICS[name].output_types[0]
            yield metric(MetricSpec(name=name), "none", kind, declared=True)
        yield MEAN

    same = {old["doc_id"]: new["doc_id"] for old, new in pairing.same}
    here = {row["doc_id"]: row["doc_id"] for row in firsts(now.rows[task])}
    every = values_by_key(now.rows[task], here)
    shared = {*same.values()}
    return paired_estimates(
        _numbers(task, before, now),
        (
            values_by_key(before.rows[task], same),
            {
                k: {at: v for at, v in found.items() if at in shared}
                for k, found in every.items()
            },
        ),
        candidates,
        lambda at: clusters_of(task, now, at),
        every=every if pairing.changes else None,
        is_sample=is_sample(task, before, now),
    )


def clusters_of(task: str, now: Side, positions: Sequence[int]) -> list[str] | None:
    """Return the cluster of each document, by the gates of the task and its groups;
    ``None`` if no gate has one. Raises ``ValueError`` if a document lacks the field of
    its cluster."""
    members = now.results.get("group_subtasks") or {}
    holders = [task, *(name for name in members if task in _tasks_below(name, members))]
    gates = now.results.get("gates") or ()
    fields = [
        gate["cluster"]
        for holder in holders
        for gate in gates
        if gate.get("task") == holder and gate.get("cluster")
    ]
    if not fields:
        return None
    docs = {row["doc_id"]: row.get("doc") or {} for row in now.rows[task]}
    labels = [field_in(docs[at], fields[0]) for at in positions]
    if None in labels:
        raise ValueError(f"no field {fields[0]!r} to cluster by")
    return [*map(str, labels)]


def _groups(before: Side, now: Side) -> dict[str, list[str]]:
    members = now.results.get("group_subtasks") or {}
    below = {group: [*_tasks_below(group, members)] for group in reversed(members)}
    # lm-eval lists tasks outside of groups as groups without members.
    return {
        group: tasks
        for group, tasks in below.items()
        if tasks and all(_numbers(group, before, now))
    }


def _tasks_below(group: str, members: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name in members[group]:
        yield from _tasks_below(name, members) if name in members else (name,)
