"""What a run has found: facts only, everything already computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_evals.core.comparison import Comparison
from pytest_evals.core.display import as_frame, as_html, as_text, number
from pytest_evals.core.gate import Verdict
from pytest_evals.core.group import Group
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.task import Task
from pytest_evals.errors import OptionError, did_you_mean
from pytest_evals.masking.values import masked, masked_text

Rows = Literal["metrics", "gates", "documents", "changes"]
"""What is a row of a data frame."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskResult:
    """One task after its documents were run.

    Args:
        task: The recipe.
        records: The documents that were run, in dataset order. Requests and responses
            may have been dropped from records that are written to disk already.
        metrics: The numbers, in the task's order.
        n_selected: Documents that the session was asked to run after limit or sample;
            the metrics' ``n_missing`` counts from here.
        n_total: Documents of the whole dataset.
        n_correct: Documents answered right.
        n_wrong: Documents answered wrong.
        n_errored: Documents that could not be rendered, answered or scored.
        n_unscored: Documents with a score that has no value.
        n_missing: Documents that were not run.
        n_excluded: Documents that were scored and count nowhere.
        n_prompt_tokens: Tokens of all prompts.
        n_tokens: Tokens scored or generated.
        n_truncated: Documents with a prompt that did not fit into the model.
        n_cut_short: Documents with an answer that ended by a limit of tokens before its
            own.
    """

    task: Task
    records: tuple[Record, ...]
    metrics: tuple[MetricResult, ...]
    n_selected: int
    n_total: int
    n_correct: int = 0
    n_wrong: int = 0
    n_errored: int = 0
    n_unscored: int = 0
    n_missing: int = 0
    n_excluded: int = 0
    n_prompt_tokens: int = 0
    n_tokens: int = 0
    n_truncated: int = 0
    n_cut_short: int = 0

    def __repr__(self) -> str:
        """The task and its numbers on one line."""
        named = ((m["metric"], number({"value": m["value"]})) for m in _numbers(self))
        numbers = ", ".join(map(" ".join, named)) or "no metrics"
        n = len(self.records)
        return f"<TaskResult {self.task.name}: {n} documents; {numbers}>"

    @property
    def sample_len(self) -> int:
        """Documents of the metric that has most of them: the size of a task, as lm-eval
        counts."""
        return max((metric.n_scored for metric in self.metrics), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """One group after the documents of its tasks were run.

    Args:
        group: What it holds.
        tasks: Results of all tasks below it, in order; one that is reached on several
            ways comes several times, and counts so.
        metrics: Its numbers.
        sample_counts: Key of a number → documents of the tasks that have it.
        notes: What a reader should know of these numbers.
    """

    group: Group
    tasks: tuple[TaskResult, ...]
    metrics: tuple[MetricResult, ...] = ()
    sample_counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def sample_len(self) -> int:
        """The sizes of its tasks, added up."""
        return sum(task.sample_len for task in self.tasks)

    @property
    def members(self) -> tuple[TaskResult, ...]:
        """Its tasks, each once."""
        return tuple({task.task.name: task for task in self.tasks}.values())

    def having(self, name: str, filter_: str = "") -> GroupResult:
        """The group with only those tasks that have a metric; and with tasks without a
        single score, which may have it. If no task has it, the group itself.

        Args:
            name: The metric.
            filter_: Its filter; empty for any.
        """
        tasks = [
            task
            for task in self.tasks
            if (not task.sample_len and task.n_selected)
            or any(
                metric.name == name and filter_ in ("", metric.filter)
                for metric in task.metrics
            )
        ]
        return replace(self, tasks=tuple(tasks)) if tasks else self

    @property
    def n_selected(self) -> int:
        """Documents that the session was asked to run."""
        return sum(task.n_selected for task in self.members)

    @property
    def n_total(self) -> int:
        """Documents of the whole datasets."""
        return sum(task.n_total for task in self.members)

    @property
    def n_correct(self) -> int:
        """Documents answered right."""
        return sum(task.n_correct for task in self.members)

    @property
    def n_wrong(self) -> int:
        """Documents answered wrong."""
        return sum(task.n_wrong for task in self.members)

    @property
    def n_errored(self) -> int:
        """Documents that could not be rendered, answered or scored."""
        return sum(task.n_errored for task in self.members)

    @property
    def n_unscored(self) -> int:
        """Documents with a score that has no value."""
        return sum(task.n_unscored for task in self.members)

    @property
    def n_missing(self) -> int:
        """Documents that were not run."""
        return sum(task.n_missing for task in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """What a session has taken from the store.

    Args:
        n_asked: Responses of the model itself that could be stored.
        n_reused: Responses that were stored before.
        n_tokens: Tokens of those that the model itself gave, prompts and answers.
        elapsed_s: Seconds that those had taken when the model gave them.
        note: Why nothing is stored, empty if something is or nothing need be.
    """

    n_asked: int = 0
    n_reused: int = 0
    n_tokens: int = 0
    elapsed_s: float = 0.0
    note: str = ""

    def __add__(self, other: Reuse) -> Reuse:
        """What two models have taken together."""
        return Reuse(
            n_asked=self.n_asked + other.n_asked,
            n_reused=self.n_reused + other.n_reused,
            n_tokens=self.n_tokens + other.n_tokens,
            elapsed_s=self.elapsed_s + other.elapsed_s,
            note=self.note or other.note,
        )


def lacking(tasks: Iterable[TaskResult]) -> str:
    """How much of the documents was not run; empty if all were."""
    every = [*tasks]
    n_missing = sum(task.n_missing for task in every)
    n_selected = sum(task.n_selected for task in every)
    if not n_missing:
        return ""
    return f"{n_selected - n_missing} of {n_selected} documents were run"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResult:
    """A whole session.

    Args:
        model: The model's name: the spec that was given.
        model_info: What the model says of itself (dtype, revision, number of parameters
            …), JSON values.
        judges: Further models that were asked, by name, with what they say of
            themselves.
        tasks: One result a task, in collection order.
        groups: One result a group, each before those that it holds.
        overall: Averages over all tasks that name one, for results files.
        verdicts: One a gate, in the order they were judged.
        options: The options of the run, JSON values, no secrets.
        started: Unix time of the start.
        elapsed_s: Seconds of the whole session.
        model_s: Seconds spent inside the model.
        n_requests: Different requests that were sent to the model or found in the
            store.
        reuse: What came from the store.
        partial: Why this is not a whole run (interrupted, stopped, deselected); empty
            if it is.
        warnings: What is odd about tasks, gates and models, as the terminal says it.
        comparison: What has changed since the run that it was compared with; ``None``
            if it was with none, or if that is still to be done.
    """

    model: str
    model_info: Mapping[str, Any] = field(default_factory=dict)
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: tuple[TaskResult, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    overall: tuple[GroupResult, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    started: float = 0.0
    elapsed_s: float = 0.0
    model_s: float = 0.0
    n_requests: int = 0
    reuse: Reuse = Reuse()
    partial: str = ""
    warnings: tuple[str, ...] = ()
    comparison: Comparison | None = None

    def __post_init__(self) -> None:
        """Mask secrets: everything that is shown of a run is taken from here."""
        options = dict(self.options)
        for name in ("model", "judge"):
            if isinstance(options.get(name), str):
                options[name] = masked_text(options[name])
        judges = {masked_text(k): masked(v) for k, v in self.judges.items()}
        object.__setattr__(self, "model", masked_text(self.model))
        object.__setattr__(self, "model_info", masked(self.model_info))
        object.__setattr__(self, "judges", judges)
        object.__setattr__(self, "options", masked(options))

    def __repr__(self) -> str:
        """The numbers and the gates on a few lines."""
        heading = f"<RunResult of {self.model}: {_counts(self)}>"
        rows = [*_shown(self)], [*_gates(self)]
        return as_text(heading, *rows, _compared(self.comparison))

    def _repr_html_(self) -> str:
        """The same as tables, for notebooks."""
        rows = [*_shown(self)], [*_gates(self)]
        return as_html(self.model, _counts(self), *rows, _compared(self.comparison))

    def to_pandas(self, rows: Rows = "metrics") -> Any:
        """A ``pandas.DataFrame`` with a row for each metric, gate or document, or for
        each document that is right or wrong since the run it was compared with.

        Args:
            rows: ``metrics``, ``gates``, ``documents`` or ``changes``.

        Raises:
            OptionError: There are no such rows.
            MissingExtraError: pandas is not installed.
        """
        if rows not in _ROWS:
            hint = did_you_mean(str(rows), [*_ROWS]) or f"; known: {', '.join(_ROWS)}"
            raise OptionError(f"to_pandas() has no rows called {rows!r}{hint}")
        return as_frame(_ROWS[rows](self))


def _counts(run: RunResult) -> str:
    counts = Counter(verdict.outcome.value for verdict in run.verdicts)
    n_errors = sum(task.n_errored + task.n_unscored for task in run.tasks)
    parts = [
        f"{len(run.tasks)} task{'s' * (len(run.tasks) != 1)}",
        f"{sum(len(task.records) for task in run.tasks)} documents",
    ]
    parts += [f"{n_errors} of them without a score"] if n_errors else []
    gates = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
    parts += [f"gates: {gates}"] if gates else []
    return ", ".join(parts) + (f"; {run.partial}" if run.partial else "")


def _metrics(run: RunResult) -> Iterator[dict[str, Any]]:
    """A row a metric; of groups, then of tasks."""
    for group in run.groups:
        yield from ({"task": group.group.name, **row} for row in _numbers(group))
    for task in run.tasks:
        yield from ({"task": task.task.name, **row} for row in _numbers(task))


def _shown(run: RunResult) -> Iterator[dict[str, Any]]:
    """The rows of metrics, with the confidence limits of their first gate, if any."""
    for row in _metrics(run):
        gates = (v for v in run.verdicts if v.is_about(row["task"], row["metric"]))
        yield {**row, "limits": max((v.shown_limits for v in gates), default=None)}


def _numbers(result: TaskResult | GroupResult) -> Iterator[dict[str, Any]]:
    for metric in result.metrics:
        estimate = metric.estimate
        yield {
            "metric": metric.key,
            "value": estimate.value if estimate else None,
            "stderr": estimate.stderr if estimate else None,
            "n_scored": metric.n_scored,
            "n_errored": metric.n_errored,
            "n_unscored": metric.n_unscored,
            "n_missing": metric.n_missing,
            "higher_is_better": metric.higher_is_better,
        }


def _gates(run: RunResult) -> Iterator[dict[str, Any]]:
    """A row a gate."""
    for verdict in run.verdicts:
        estimate = verdict.metric.estimate if verdict.metric else None
        yield {
            "task": verdict.gate.task,
            "gate": verdict.gate.text,
            "outcome": verdict.outcome.value,
            "is_red": verdict.is_red,
            "value": estimate.value if estimate else None,
            "low": verdict.interval.low if verdict.interval else None,
            "high": verdict.interval.high if verdict.interval else None,
            "p_value": verdict.p_fails,
            "reason": verdict.reason,
        }


def _documents(run: RunResult) -> Iterator[dict[str, Any]]:
    """A row a document; each of its scores is a column."""
    for task in run.tasks:
        for record in task.records:
            answers = [score.answer for score in record.scores if score.answer]
            yield {
                "task": task.task.name,
                "id": record.doc.id,
                "index": record.index,
                "status": record.status.value,
                "correct": record.correct,
                "answer": answers[0] if answers else "",
                "error": record.error,
                **{f"{s.metric},{s.filter}": s.value for s in record.scores},
            }


def _changes(run: RunResult) -> Iterator[dict[str, Any]]:
    """A row a document that is right or wrong since the other run."""
    found = run.comparison
    for change, documents in (
        ("worse", found.worse if found else ()),
        ("better", found.better if found else ()),
    ):
        for one in documents:
            yield {
                "task": one.task,
                "id": one.id,
                "change": change,
                "target": one.target,
                "before": one.before,
                "now": one.now,
            }


def _compared(found: Comparison | None) -> Iterator[str]:
    """The comparison on a few lines."""
    if found is None:
        return
    yield (
        f"compared with {found.name}: {found.n_paired} documents, "
        f"{len(found.worse)} worse, {len(found.better)} better"
    )
    yield from (f"not compared: {text}" for text in found.refused)


_ROWS: Mapping[Rows, Callable[[RunResult], Iterator[dict[str, Any]]]] = {
    "metrics": _metrics,
    "gates": _gates,
    "documents": _documents,
    "changes": _changes,
}
