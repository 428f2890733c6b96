"""The results of a run, without any computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pytest_evals.core.comparison import Comparison, ModelComparison, matrix_of
from pytest_evals.core.display import as_frame, as_html, as_text, number
from pytest_evals.core.gate import Verdict
from pytest_evals.core.metric import MetricResult
from pytest_evals.core.record import Record
from pytest_evals.core.task import Group, Task
from pytest_evals.core.transcript import document_row
from pytest_evals.errors import OptionError, plural, suggestion
from pytest_evals.masking.values import masked, masked_text

Rows = Literal["metrics", "gates", "documents", "changes", "matrix"]
"""The rows of a data frame."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskResult:
    """One task after its documents were run."""

    task: Task
    records: tuple[Record, ...]
    """The documents that were run, in dataset order. Requests and responses may have
    been dropped from records that are already written to disk."""
    metrics: tuple[MetricResult, ...]  # its metrics, in the task's order
    n_selected: int
    """Documents selected by limit or sample; the metrics' ``n_missing`` counts from
    here."""
    n_total: int  # documents of the whole dataset
    n_correct: int = 0  # documents with a correct answer
    n_wrong: int = 0  # documents with a wrong answer
    n_errored: int = 0  # documents that could not be prompted, answered or scored
    n_unscored: int = 0  # documents with a score that has no value
    n_missing: int = 0  # documents that were not run
    n_excluded: int = 0  # documents that were scored but are excluded from the metrics
    n_prompt_tokens: int = 0  # tokens of all prompts
    n_tokens: int = 0  # tokens scored or generated
    n_truncated: int = 0  # documents with a prompt that exceeded the context window
    n_cut_short: int = 0
    """Documents with a generation that ended by a token limit below the request's own.
    """
    columns: Mapping[tuple[str, str], Sequence[Any]] = field(default_factory=dict)
    """Metric and filter → the value of each document, of tasks with too many documents
    for records; these have only some."""

    def __repr__(self) -> str:
        named = ((m["metric"], number({"value": m["value"]})) for m in _numbers(self))
        numbers = ", ".join(map(" ".join, named)) or "no metrics"
        n = len(self.records)
        return f"<TaskResult {self.task.name}: {plural(n, 'document')}; {numbers}>"

    @property
    def sample_len(self) -> int:
        """Largest number of documents of a metric: a task's size, as lm-eval counts."""
        return max((metric.n_scored for metric in self.metrics), default=0)


class _OfMembers:
    """A number of a group: the sum of that of its tasks."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, group: GroupResult, _: type | None = None) -> int:
        return sum(getattr(task, self._name) for task in group.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """One group after the documents of its tasks were run."""

    group: Group
    tasks: tuple[TaskResult, ...]
    """Results of all its tasks, in order; a task that belongs to several subgroups is
    repeated, and counts as often."""
    metrics: tuple[MetricResult, ...] = ()
    sample_counts: Mapping[str, int] = field(default_factory=dict)
    """Key of a metric → number of documents of the tasks that have it."""
    notes: tuple[str, ...] = ()  # remarks about these metrics
    # Numbers of documents as in :class:`TaskResult`, of all members.
    n_selected = _OfMembers()
    n_total = _OfMembers()
    n_correct = _OfMembers()
    n_wrong = _OfMembers()
    n_errored = _OfMembers()
    n_unscored = _OfMembers()
    n_missing = _OfMembers()

    @property
    def sample_len(self) -> int:
        """The sum of the sizes of its tasks."""
        return sum(task.sample_len for task in self.tasks)

    @property
    def members(self) -> tuple[TaskResult, ...]:
        """Its tasks, without repetitions."""
        return tuple({task.task.name: task for task in self.tasks}.values())

    def having(self, name: str, filter_: str = "") -> GroupResult:
        """The group with only those tasks that have a metric with a filter (empty for
        any), or no score at all (these may have it). If no task has it, the group
        itself."""
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


AnyResult = TaskResult | GroupResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Use of the response cache in a session."""

    n_asked: int = 0  # responses of the model that could be stored
    n_reused: int = 0  # cache hits
    n_tokens: int = 0  # tokens of the cache hits, prompts and generations
    elapsed_s: float = 0.0  # seconds of inference that the cache hits had taken
    note: str = ""  # why nothing is stored; empty otherwise

    def __add__(self, other: Reuse) -> Reuse:
        return Reuse(
            n_asked=self.n_asked + other.n_asked,
            n_reused=self.n_reused + other.n_reused,
            n_tokens=self.n_tokens + other.n_tokens,
            elapsed_s=self.elapsed_s + other.elapsed_s,
            note=self.note or other.note,
        )


INTERRUPTED = "interrupted"
SPEND_CAP = "not all requests were sent: "
"""The beginning of the reason why a run is partial."""


def is_cut_off(partial: str) -> bool:
    """Whether a partial run was interrupted or has reached a spend cap, so that
    documents may have been answered and not scored."""
    return partial == INTERRUPTED or partial.startswith(SPEND_CAP)


def lacking(tasks: Iterable[TaskResult]) -> str:
    """The number of documents that were run, if not all; empty otherwise."""
    every = [*tasks]
    n_missing = sum(task.n_missing for task in every)
    n_selected = sum(task.n_selected for task in every)
    if not n_missing:
        return ""
    return f"{n_selected - n_missing} of {plural(n_selected, 'document')} were run"


def broken_metrics(tasks: Iterable[TaskResult]) -> list[str]:
    """Return task and name of each metric that has scores and no value, of tasks whose
    documents were all run."""
    return [
        f"{task.task.name}: {metric.key}"
        for task in tasks
        for metric in task.metrics
        if metric.error and not task.n_missing
    ]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResult:
    """A complete session."""

    model: str  # the model's spec
    model_info: Mapping[str, Any] = field(default_factory=dict)
    """The model's description (dtype, revision, number of parameters …), JSON values.
    """
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Descriptions of the auxiliary models, by name."""
    tasks: tuple[TaskResult, ...] = ()  # one result for each task, in collection order
    groups: tuple[GroupResult, ...] = ()
    """One result for each group, each before its subgroups."""
    overall: tuple[GroupResult, ...] = ()
    """Averages over all tasks with the same ``overall``, for results files."""
    verdicts: tuple[Verdict, ...] = ()
    """One for each gate, in the order they were judged."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the run, JSON values, no secrets."""
    started: float = 0.0  # unix time of the start
    elapsed_s: float = 0.0  # seconds of the whole session
    model_s: float = 0.0  # seconds spent inside the model
    n_requests: int = 0
    """Distinct requests that were sent to the model or answered from the cache."""
    reuse: Reuse = Reuse()  # use of the response cache
    partial: str = ""
    """Why the run is incomplete (interrupted, stopped, deselected); empty if it is
    complete."""
    warnings: tuple[str, ...] = ()
    """Warnings about tasks, gates and models, as the terminal shows them."""
    comparison: Comparison | None = None
    """Differences from the run that it was compared with; ``None`` before a comparison.
    """
    variants: tuple[ModelComparison, ...] = ()
    """The variants of evals side by side, from ``evaluate()``."""

    def __post_init__(self) -> None:
        """Mask secrets, because all reports are made from this object."""
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
        heading = f"<RunResult of {self.model}: {_counts(self)}>"
        rows = [*_shown(self)], [*_gates(self)]
        return as_text(heading, *rows, _compared(self.comparison))

    def _repr_html_(self) -> str:
        rows = [*_shown(self)], [*_gates(self)]
        return as_html(self.model, _counts(self), *rows, _compared(self.comparison))

    def to_pandas(self, rows: Rows = "metrics") -> Any:
        """A ``pandas.DataFrame`` with a row for each metric, gate, document or change
        of correctness since the baseline.

        Args:
            rows: ``metrics``, ``gates``, ``documents`` or ``changes``; or ``matrix``: a
                row for each document of evals with variants, and a column for each.

        Raises:
            OptionError: ``rows`` has another value, or no eval has variants.
            MissingExtraError: pandas is not installed.
        """
        if rows == "matrix":
            return matrix_of(self.variants)
        if rows not in _ROWS:
            hint = suggestion(str(rows), [*_ROWS, "matrix"])
            raise OptionError(f"to_pandas(): unknown rows {rows!r}{hint}")
        return as_frame(_ROWS[rows](self), _COLUMNS[rows])


def _counts(run: RunResult) -> str:
    counts = Counter(verdict.outcome.value for verdict in run.verdicts)
    n_errors = sum(task.n_errored + task.n_unscored for task in run.tasks)
    n_documents = sum(len(task.records) for task in run.tasks)
    parts = [f"{plural(len(run.tasks), 'task')}", plural(n_documents, "document")]
    parts += [f"{n_errors} of them without a score"] if n_errors else []
    gates = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
    parts += [f"gates: {gates}"] if gates else []
    return ", ".join(parts) + (f"; {run.partial}" if run.partial else "")


def _metrics(run: RunResult) -> Iterator[dict[str, Any]]:
    for group in run.groups:
        yield from ({"task": group.group.name, **row} for row in _numbers(group))
    for task in run.tasks:
        yield from ({"task": task.task.name, **row} for row in _numbers(task))


def _shown(run: RunResult) -> Iterator[dict[str, Any]]:
    """The rows of metrics, with value and confidence limits of a gate, if any: it may
    reduce answers or correct a judge by its own rule."""
    for row in _metrics(run):
        gates = (v for v in run.verdicts if v.is_about(row["task"], row["metric"]))
        limited = max(gates, key=lambda v: v.shown_limits, default=None)
        if limited is None:
            yield {**row, "limits": None}
            continue
        limits = limited.shown_limits
        yield {**row, "limits": limits} | ({"value": limited.value} if limits else {})


def _with_gates(run: RunResult) -> Iterator[dict[str, Any]]:
    """The rows of metrics, with the confidence limits of a gate, if any."""
    for row in _metrics(run):
        gates = (v for v in run.verdicts if v.is_about(row["task"], row["metric"]))
        limits = next((v.interval for v in gates if v.shown_limits), None)
        yield {**row, **(asdict(limits) if limits else {})}


def _numbers(result: AnyResult) -> Iterator[dict[str, Any]]:
    for metric in result.metrics:
        estimate = metric.estimate
        limits = metric.limits()
        yield {
            "metric": metric.key,
            "value": estimate.value if estimate else None,
            "stderr": estimate.stderr if estimate else None,
            **limits._asdict(),
            "n_scored": metric.n_scored,
            "n_errored": metric.n_errored,
            "n_unscored": metric.n_unscored,
            "n_missing": metric.n_missing,
            "higher_is_better": metric.higher_is_better,
        }


def _gates(run: RunResult) -> Iterator[dict[str, Any]]:
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


def _changes(run: RunResult) -> Iterator[dict[str, Any]]:
    """One row for each document whose correctness has changed since the baseline."""
    for change in ("worse", "better"):
        for one in getattr(run.comparison, change, ()):
            yield {
                name: change if name == "change" else getattr(one, name)
                for name in _COLUMNS["changes"]
            }


def _compared(comparison: Comparison | None) -> Iterator[str]:
    if comparison is None:
        return
    yield (
        f"compared with {comparison.name}: {plural(comparison.n_paired, 'document')}, "
        f"{len(comparison.worse)} worse, {len(comparison.better)} better"
    )
    yield from (f"not compared: {text}" for text in comparison.refused)


_COLUMNS: Mapping[Rows, tuple[str, ...]] = {
    "metrics": ("task", "metric", "value", "stderr", "low", "high", "method"),
    "gates": ("task", "gate", "outcome", "is_red", "value", "low", "high", "reason"),
    "documents": ("task", "id", "index", "status", "correct", "prompt", "target"),
    "changes": ("task", "id", "change", "target", "before", "now"),
}
"""The columns of frames without rows."""
_ROWS: Mapping[Rows, Callable[[RunResult], Iterator[dict[str, Any]]]] = {
    "metrics": _with_gates,
    "gates": _gates,
    "documents": lambda run: (
        document_row(task.task.name, record)
        for task in run.tasks
        for record in task.records
    ),
    "changes": _changes,
}
