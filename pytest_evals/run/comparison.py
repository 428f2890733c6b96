"""Compare a run with a baseline, and save it as one (``--evals-compare`` and
``--evals-save-baseline``). It reads the files of the run, so later calls agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from pytest_evals.core.comparison import Comparison
from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.core.result import RunResult
from pytest_evals.core.task import Task
from pytest_evals.errors import StoreError
from pytest_evals.gates.formatting import figure, shown_change, suffix
from pytest_evals.run.baselines import settings_of
from pytest_evals.store.baselines import save_baseline
from pytest_evals.store.document_pairs import Side, compare, setting_changes
from pytest_evals.store.files import write_json
from pytest_evals.store.history import EarlierRun, read_run


def setting_faults(
    run: EarlierRun, tasks: Iterable[tuple[Task, int]], judge: str
) -> list[str]:
    """Why tasks cannot be compared, determined before any request is sent: another
    number of few-shot examples, another limit, version, judge or model interface."""
    sizes = [*tasks]
    before = Side(results=run.results, rows={})
    now = Side(results=settings_of(sizes, judge), rows={})
    return [
        f"{task.name}: {text}"
        for task, _ in sizes
        if task.name in run.tasks
        for text in setting_changes(task.name, before, now)
    ]


def changes(name: str, baseline: EarlierRun, run: EarlierRun) -> Comparison:
    """The changes from one stored run to another.

    Raises:
        StoreError: One of them cannot be read.
    """
    return compare(name, _side(baseline), _side(run))


def compared(name: str, baseline: EarlierRun, path: Path) -> Comparison:
    """Write the changes to ``comparison.json`` next to the results, and return them.

    Raises:
        StoreError: A run cannot be read, or the file cannot be written.
    """
    comparison = changes(name, baseline, read_run(path))
    write_json(path / "comparison.json", asdict(comparison))
    return comparison


def saved(
    base: Path, name: str, path: Path, result: RunResult, *, failure: str, consent: str
) -> Path:
    """Save a run as a baseline.

    Args:
        failure: Why the run failed, see :func:`failure_of`; empty to save it anyway.
        consent: The option that saves a failed run, for the message.

    Returns:
        The folder of the baseline.

    Raises:
        StoreError: The run is partial or failed, or the baseline cannot be written.
    """
    why = result.partial or (f"{failure}; {consent} saves it anyway" if failure else "")
    if why:
        raise StoreError(f"baseline {name!r} is not saved: {why}")
    return save_baseline(base, name, read_run(path))


def failure_of(
    result: RunResult,
    is_missing: Callable[[str], bool],
    is_excused: Callable[[Verdict], bool] = lambda verdict: False,
) -> str:
    """Why a run failed: its unscored documents or failed gates; empty if it did not.

    Gates on a baseline that does not exist yet are ignored, so that two baselines that
    refer to each other can be created.

    Args:
        is_missing: Whether there is no baseline of a name.
        is_excused: Whether a gate was expected to fail (xfail).
    """
    lacking = sum(task.n_errored + task.n_unscored for task in result.tasks)
    if lacking:
        return f"{lacking} document{'s' * (lacking != 1)} could not be scored"
    failed = [
        one
        for one in result.verdicts
        if one.is_red
        and not is_excused(one)
        and not (one.gate.baseline and is_missing(one.gate.baseline))
    ]
    if not failed:
        return ""
    gate, outcome = failed[0].gate, failed[0].outcome
    verb = "failed" if outcome is Outcome.FAILED else f"is {outcome.value}"
    more = f", and {len(failed) - 1} more" if failed[1:] else ""
    return f"gate {gate.task}::{gate.id} {verb}{more}"


def anchor_lines(name: str, result: RunResult) -> Iterator[str]:
    """The distance of a run that becomes a baseline from each anchor."""
    for verdict in result.verdicts:
        gate, change = verdict.gate, verdict.change
        if not gate.is_anchor or gate.baseline == name:
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


def _side(run: EarlierRun) -> Side:
    return Side(
        results=run.results, rows={task: list(run.all_rows(task)) for task in run.tasks}
    )
