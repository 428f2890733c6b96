"""Notes below the table of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pytest_evals.core.comparison import is_environment
from pytest_evals.core.gate import Outcome, Verdict
from pytest_evals.core.metric import BOOTSTRAP_ITERS, MetricResult
from pytest_evals.core.result import RunResult, TaskResult
from pytest_evals.gates.explain import is_about_noise
from pytest_evals.gates.new_samples import LOW_POWER
from pytest_evals.reports.details.gate import documents_to_inspect
from pytest_evals.reports.overview.judge_errors import judge_remarks
from pytest_evals.reports.overview.rows import COLOURS, verdict_word
from pytest_evals.scorers.near_misses import type_fault

_NUMBER = re.compile(r"\d[\d.,]*")
_SHOWN = 2
"""Maximum number of subjects named in a line."""


def remarks(
    result: RunResult,
    reported: Collection[tuple[str, str]] = (),
    *,
    shows_methods: bool = False,
) -> Iterator[tuple[str, Mapping[str, bool]]]:
    """Yield text and colour of each note: gates that did not pass, metrics that
    could not be computed, truncated prompts. ``reported``: task and id of the gates
    that are reported in full elsewhere."""
    yield from _gates(result, reported, shows_methods=shows_methods)
    for group in result.groups:
        for note in group.notes:
            yield f"{group.group.alias or group.group.name}: {note}", {"yellow": True}
        yield from _about(group.group.alias or group.group.name, group.metrics)
    iterations = result.options.get("bootstrap_iters", BOOTSTRAP_ITERS)
    if iterations != BOOTSTRAP_ITERS and _has_bootstrap_stderr(result):
        text = f"bootstrapped standard errors are of {iterations:,} resamples, "
        yield f"{text}in lm-eval of {BOOTSTRAP_ITERS:,}", {}
    for task in result.tasks:
        name = task.task.alias or task.task.name
        yield from _about(name, task.metrics)
        for line in judge_remarks(task):
            yield f"{name}: {line}", {}
        if task.n_wrong:
            yield from _type_faults(task)
        if not task.n_correct + task.n_wrong:
            yield from _undecided(name, task.metrics)
        if task.n_truncated:
            text = f"{name}: {task.n_truncated} of {task.n_selected} documents did not "
            yield text + "fit into the model; their prompts were cut", {"yellow": True}
        if task.n_cut_short:
            text = f"{name}: {task.n_cut_short} of {task.n_selected} documents have an "
            text += "answer cut off before its own token limit: the context window was "
            yield text + "full or the server has a lower limit", {"yellow": True}


def _type_faults(task: TaskResult) -> Iterator[tuple[str, Mapping[str, bool]]]:
    """Yield the first wrong answer that differs from its target by an inferred type;
    the first wrong documents of a task are kept with their answers."""
    for record in task.records:
        for score in record.scores[:1] if record.correct is False else ():
            fault = type_fault(str(score.answer), record.doc.target)
            if fault:
                remedy = task.task.remedies.get("types", "")
                text = f"{task.task.name}[{record.doc.id}]: {fault}"
                yield f"{text}; {remedy}" if remedy else text, {"yellow": True}
                return


def _gates(
    result: RunResult, reported: Collection[tuple[str, str]], *, shows_methods: bool
) -> Iterator[tuple[str, Mapping[str, bool]]]:
    for outcome in Outcome:
        verdicts = [
            verdict
            for verdict in result.verdicts
            if verdict.outcome is outcome
            and (verdict.gate.task, verdict.gate.id) not in reported
        ]
        # A gate that fails alone is the most urgent of those that are inconclusive.
        verdicts.sort(key=lambda verdict: not verdict.fails_alone)
        texts = (_verdict(one, result, shows_method=shows_methods) for one in verdicts)
        markup = {} if outcome is Outcome.PASSED else COLOURS[outcome]
        # Numbers of one gate are not those of another.
        for text in grouped(filter(None, texts), by_number=True):
            yield text, markup
    if result.comparison is None:
        notes = dict.fromkeys(note for v in result.verdicts for note in v.notes)
        yield from ((note, {}) for note in filter(is_environment, notes))


def _verdict(verdict: Verdict, result: RunResult, *, shows_method: bool) -> str:
    """Return outcome, reason and notes of a gate; of one that passed only the notes
    that are not about noise."""
    notes = [note for note in verdict.notes if not is_environment(note)]
    gate = f"{verdict.gate.task}::{verdict.gate.id}: "
    if any(text.startswith(gate) for text in result.warnings):
        # The warning before the run is about the same.
        notes = [note for note in notes if not note.startswith(LOW_POWER)]
    if verdict.outcome is Outcome.PASSED and not verdict.early:
        notes = [note for note in notes if not is_about_noise(note)]
    else:
        notes = [verdict.reason, *notes]
    if not notes:
        return ""
    if verdict.fails_alone:
        judged = {one.task.name: one for one in result.tasks}.get(verdict.gate.task)
        notes += [documents_to_inspect(verdict, judged)] if judged else []
    notes += [verdict.method] if shows_method and verdict.method else []
    word = verdict_word(verdict)
    word += f", {verdict.conclusion}" if verdict.conclusion else ""
    return f"{verdict.gate.task}::{verdict.gate.id} {word}: {'; '.join(notes)}"


def _has_bootstrap_stderr(result: RunResult) -> bool:
    found = (m.estimate for task in result.tasks for m in task.metrics)
    return any(estimate and estimate.method == "bootstrap" for estimate in found)


def _about(
    name: str, metrics: Sequence[MetricResult]
) -> Iterator[tuple[str, Mapping[str, bool]]]:
    for metric in metrics:
        if metric.error:
            text = f"error: {name}: {metric.key} has no value: {metric.error}"
            yield text, {"red": True, "bold": True}
        if metric.estimate is not None and metric.estimate.note:
            yield f"{name}: {metric.key}: {metric.estimate.note}", {}


def _undecided(
    name: str, metrics: Sequence[MetricResult]
) -> Iterator[tuple[str, Mapping[str, bool]]]:
    for metric in metrics:
        if metric.estimate is not None and metric.estimate.undecided:
            why = metric.estimate.undecided
            yield f"{name}: {metric.key}: no document is correct or wrong: {why}", {}


def grouped(texts: Iterable[str], *, by_number: bool = False) -> list[str]:
    """Return one line for each cause, in order of the first.

    Each text is ``subject: cause``. Causes that differ only in their numbers and in the
    name of their subject are one cause, shown with the numbers of the first; with
    ``by_number`` only equal ones are.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for text in texts:
        subject, colon, cause = text.partition(": ")
        if not colon:
            subject, cause = "", text
        name = subject.partition("::")[0]
        key = cause.replace(repr(name), "") if name else cause
        key = key if by_number else _NUMBER.sub("#", key)
        found.setdefault(key if subject else text, []).append((subject, cause))
    return [_line(ones) for ones in found.values()]


def _line(ones: list[tuple[str, str]]) -> str:
    first, cause = ones[0]
    subjects = [*dict.fromkeys(subject for subject, _ in ones)]
    names = [subject.partition(" ")[0] for subject in subjects]
    words = {subject.partition(" ")[2] for subject in subjects}
    # "a failed" and "b failed" are "a, b failed".
    has_one = len(words) == 1
    named = ", ".join((names if has_one else subjects)[:_SHOWN])
    if len(subjects) > _SHOWN:
        named += f" and {len(subjects) - _SHOWN} more"
    if has_one:
        named = f"{named} {words.pop()}".rstrip()
    if len({text for _, text in ones}) > 1:
        named += f" (numbers of {first.partition(' ')[0]})"
    return f"{named}: {cause}" if named else cause
