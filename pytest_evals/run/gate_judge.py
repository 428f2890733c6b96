"""The verdicts of a run's gates, judged together because failures are corrected for the
other gates of their family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.metric import Estimate, MetricResult
from pytest_evals.core.result import AnyResult, GroupResult, TaskResult
from pytest_evals.gates.check import left_out
from pytest_evals.gates.decide import corrected
from pytest_evals.gates.judge import all_tied, judge
from pytest_evals.run.baselines import Baselines, control_of
from pytest_evals.run.config import RunConfig
from pytest_evals.run.inference import Inference
from pytest_evals.run.run_writer import RunWriter
from pytest_evals.run.suite import Suite
from pytest_evals.scorers.groups import summarise_group
from pytest_evals.scorers.summary import summarise
from pytest_evals.store.history import EarlierRun

if TYPE_CHECKING:
    from pytest_evals.gates.plan import Known
    from pytest_evals.run.early_stopping import EarlyStopping


class Records:
    """Adds up the records that were kept."""

    def __init__(self, suite: Suite, writer: RunWriter, hook: Any) -> None:
        """``hook``: the hooks of users; metrics that they add are part of results."""
        self._suite, self._writer, self._hook = suite, writer, hook

    def samples(self) -> EarlierRun | None:
        """Return the documents that were written so far; ``None`` if none were."""
        self._writer.flush()
        if self._writer.path is None or self._writer.error:
            return None
        files = {"sample_files": self._writer.files}
        return EarlierRun(path=self._writer.path, results=files)

    def result(self, name: str) -> TaskResult:
        """Return a task's metrics over the documents that were run so far."""
        run = self._suite.tasks[name]
        if run.result is None:
            records = [*run.records.values()]
            result = summarise(run.task, records, len(run.ids), run.n_total)
            run.result = _with_added_metrics(self._hook, result)
        return run.result

    def group_result(self, name: str) -> GroupResult:
        """Return a group's metrics over the documents that were run so far."""
        group = self._suite.groups[name].group
        tasks = {task.name: self.result(task.name) for task in group.tasks()}
        return summarise_group(group, tasks)


def _with_added_metrics(hook: Any, result: TaskResult) -> TaskResult:
    metrics: list[MetricResult] = []
    for numbers in hook.pytest_evals_metrics(task=result.task, records=result.records):
        for key, value in (numbers or {}).items():
            name, _, filter_ = key.partition(",")
            estimate = value if isinstance(value, Estimate) else Estimate(float(value))
            metrics.append(
                MetricResult(
                    name=name,
                    filter=filter_ or "none",
                    estimate=estimate,
                    n_scored=len(result.records) - result.n_errored,
                    n_errored=result.n_errored,
                    n_missing=result.n_missing,
                )
            )
    return replace(result, metrics=(*result.metrics, *metrics))


PENDING = "judged over all documents by the command merge"
"""The reason of a gate that a part of a run does not judge."""


class GateJudge:
    """Judges all gates when the first verdict is needed."""

    def __init__(
        self,
        config: RunConfig,
        suite: Suite,
        inference: Inference,
        records: Records,
        baselines: Baselines,
        early_stopping: EarlyStopping | None,
    ) -> None:
        """Create the judging of a run. ``inference`` describes model and machine,
        for the conditions of gates."""
        self._config, self._suite, self._inference = config, suite, inference
        self._records, self._baselines = records, baselines
        self._early_stopping = early_stopping
        self.fill: Callable[[], None] | None = None
        """Adds documents that were not selected from the cache; called once."""
        self._n = -1  # documents that were scored when the gates were judged
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        self._weak: dict[tuple[str, str, int], str] = {}
        """Warnings about low power, by task, gate and number of documents."""
        self.reported: dict[tuple[str, str], Verdict] = {}
        """Verdicts of the selected gates, by task and gate."""

    def judge(self, gate: Gate) -> tuple[Verdict, AnyResult]:
        """Return a gate's verdict, and the result that it judges, over all documents
        that were run or can be filled from the cache. In a part of a run, gates are
        pending.

        All gates of the suite count, selected or not, so that a selection does not
        change verdicts. They are judged again only if documents were added since.
        """
        if self._config.shard:
            verdict = Verdict(gate=gate, outcome=Outcome.PENDING, reason=PENDING)
            self.reported[gate.task, gate.id] = verdict
            return verdict, self.result_of(gate)
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill()
        n = sum(len(run.records) for run in self._suite.tasks.values())
        if self._n != n:
            runs = (*self._suite.tasks.values(), *self._suite.groups.values())
            verdicts = [self._judged(gate) for run in runs for gate in run.gates]
            self._verdicts = {(v.gate.task, v.gate.id): v for v in corrected(verdicts)}
            self._n = n
        verdict, result = self._verdicts[gate.task, gate.id], self.result_of(gate)
        if (
            verdict.outcome is Outcome.FAILED
            and (gate.task, gate.id) not in self.reported
        ):
            notes = (*verdict.notes, *self._near_misses(verdict, result))
            verdict = replace(verdict, notes=notes)
            self._verdicts[gate.task, gate.id] = verdict
        self.reported[gate.task, gate.id] = verdict
        return verdict, result

    def _near_misses(self, verdict: Verdict, result: AnyResult) -> tuple[str, ...]:
        """Return the likely causes of wrong answers behind a failed gate."""
        from pytest_evals.run.diagnosis import diagnosed

        run = self._records.samples()
        if run is None:
            return ()
        template = ""
        if not (verdict.gate.baseline or self._config.chat):
            template = str(self._inference.info.get("chat_template") or "")
        metric = verdict.metric
        # Where less is better, 0 does not mean wrong.
        counts_correct = metric is not None and metric.higher_is_better is not False
        key = metric.key if metric is not None and counts_correct else ""
        return diagnosed(run, result, key, template=template)

    def skipped(self) -> list[str]:
        """Return the node ids of gates that could not be judged."""
        return [
            run.gate_id(gate)
            for run in self._suite.all()
            for gate in run.gates
            if (verdict := self.reported.get((gate.task, gate.id)))
            and verdict.outcome is Outcome.SKIPPED
            and not verdict.left_out
        ]

    def doubts(self, *, plans: bool) -> list[str]:
        """Return warnings about gates with little power, before any request is sent.
        ``plans``: whether ``--evals-plan`` shows the power of gates."""
        warnings = []
        tasks = self._suite.tasks
        for run in self._suite.all():
            names = tasks.keys() & self._suite.tasks_of(run.name)
            n = sum(len(tasks[name].ids) for name in names)
            for gate in run.gates:
                if n and (why := self._doubt(gate, n, plans=plans)):
                    warnings.append(f"{gate.task}::{gate.id}: {why}")
        return warnings

    def _doubt(self, gate: Gate, n: int, *, plans: bool) -> str:
        if gate.when:  # it may be left out on this model
            return ""
        name, baselines = gate.baseline, self._baselines
        run = baselines.run(name) if name else None
        # This run may create the baseline.
        if isinstance(run, str) and not (
            baselines.is_replaced(name) or baselines.is_model(name)
        ):
            return f"it will be invalid: {run}"
        if plans or (gate.over != "population" and gate.margin is None):
            return ""
        from pytest_evals.gates.plan import weakness

        key = gate.task, gate.id, n
        if key not in self._weak:
            last = run.number(gate) if isinstance(run, EarlierRun) else None
            self._weak[key] = weakness(gate, n, self.known_of(gate), last)
        return self._weak[key]

    def known_of(self, gate: Gate) -> Known:
        """Return what is known of a gate's documents before the run."""
        from pytest_evals.gates.plan import Known, range_of
        from pytest_evals.gates.power import Stratum

        tasks = self._suite.tasks
        names = [one for one in self._suite.tasks_of(gate.task) if one in tasks]
        metrics = [m for one in names for m in tasks[one].task.metrics]
        limits = range_of(gate, metrics)
        measured = [one for one in metrics if one.name == gate.metric]
        is_share = all(one.is_share and one.labels is None for one in measured)
        is_share = is_share and bool(measured)
        group = self._suite.groups.get(gate.task)
        if group is None:
            return Known(limits, is_share)
        rules = [one for one in group.group.aggregates if one.metric == gate.metric]
        is_weighted = not rules or rules[0].weighted
        sizes = {name: len(tasks[name].ids) for name in sorted(names)}
        weights = {name: n if is_weighted else 1 for name, n in sizes.items() if n}
        total = sum(weights.values())
        strata = [Stratum(sizes[name], w / total) for name, w in weights.items()]
        return Known(limits, is_share, strata, names=(*weights,))

    def _judged(self, gate: Gate) -> Verdict:
        result = self.result_of(gate)
        if gate.when:
            machine = self._inference.machine(self._config.spec)
            names = {**machine, **self._suite.variant_of(gate.task)}
            if skipped := left_out(gate, names):
                return skipped
        stops = self._early_stopping
        early = stops.verdict(gate, result) if stops is not None else None
        if early is not None and early.metric and all_tied(early.metric, result):
            early = None
        if not gate.baseline and self._config.options.get("sample"):
            control = control_of(self._suite, self._config.compare)
            gate = replace(gate, control=control)
        policy = self._config.inconclusive
        verdict = early or judge(gate, result, policy, self._baselines.find)
        inference, is_skipped = self._inference, verdict.outcome is Outcome.SKIPPED
        if is_skipped and inference.unsent & self._suite.tasks_of(gate.task):
            reason = f"{verdict.reason}; {inference.spend_cap}"
            return replace(verdict, outcome=Outcome.INVALID, reason=reason)
        return verdict

    def result_of(self, gate: Gate) -> AnyResult:
        """Return the results that a gate judges, over the documents run so far."""
        if gate.task in self._suite.groups:
            return self._records.group_result(gate.task)
        return self._records.result(gate.task)
