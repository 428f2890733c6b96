"""The verdicts of a session's gates: judged together, since each red one is corrected
for how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.result import GroupResult, TaskResult
from pytest_evals.gates.families import corrected
from pytest_evals.gates.judge import judge
from pytest_evals.gates.when import left_out
from pytest_evals.plugin.results.baseline import References
from pytest_evals.plugin.results.completing import complete
from pytest_evals.run.baselines import ReferenceRun, is_model

if TYPE_CHECKING:
    from pytest_evals.plugin.session import EvalSession

__all__ = ["Judging"]


class Judging:
    """Judges all gates when the first one is asked for."""

    def __init__(self, session: EvalSession) -> None:
        """Nothing is judged yet."""
        self._session = session
        self.reference_runs: dict[str, ReferenceRun] = {}
        """Baseline of a gate → the answers of the model that it names."""
        self._references = References(session)
        self.baseline = self._references.run
        """The stored run of a name, or why there is none."""
        self.find = self._references.find
        """What a task was in a baseline."""
        self._n = -1
        """Documents that were there when the verdicts were found."""
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        self.told: dict[tuple[str, str], Verdict] = {}
        """Verdicts that somebody has asked for, by task and gate."""

    def judge(self, gate: Gate) -> tuple[Verdict, TaskResult | GroupResult]:
        """A gate's verdict over what was run, and what it rests on."""
        verdict = self.told[gate.task, gate.id] = self._verdict(gate)
        return verdict, self.result_of(gate)

    def skipped(self) -> list[str]:
        """Node ids of gates that could not be judged."""
        return [
            f"{run.nodeid}::{gate.id}"
            for run in self._session.known.all()
            for gate in run.gates
            if (told := self.told.get((gate.task, gate.id)))
            and told.outcome is Outcome.SKIPPED
            and not told.left_out
        ]

    def _verdict(self, gate: Gate) -> Verdict:
        """A gate's verdict over what was run.

        All gates that there are count, selected or not, so that a selection turns no
        verdict. They are judged again only when documents have come since.
        """
        session = self._session
        if self._n < 0 and session.options.select:
            complete(session)
        n = sum(len(run.records) for run in session.runs.values())
        if self._n != n:
            gates = [one for run in session.known.all() for one in run.gates]
            found = [self._judged(one) for one in gates]
            self._verdicts = {(v.gate.task, v.gate.id): v for v in corrected(found)}
            self._n = n
        return self._verdicts[gate.task, gate.id]

    def doubts(self) -> list[str]:
        """Why gates will decide little or nothing, as far as that is known before
        anything is asked."""
        found = []
        for run in self._session.known.all():
            n = self._n_documents(run.name)
            for gate in run.gates:
                if n and (why := self._doubt(gate, n)):
                    found.append(f"{gate.task}::{gate.id}: {why}")
        return found

    def _n_documents(self, name: str) -> int:
        """Documents that a task or a group has in this session."""
        known = self._session.known
        return sum(
            len(known.tasks[one].ids)
            for one in known.tasks_of(name)
            if one in known.tasks
        )

    def _doubt(self, gate: Gate, n: int) -> str:
        options = self._session.options
        if gate.when:  # it may not be judged here, which the model will say
            return ""
        here = self._session.config.invocation_params.dir
        answers = is_model(options.dir, gate.baseline, here)
        if gate.baseline and gate.baseline != options.save and not answers:
            run = self._references.run(gate.baseline)
            if isinstance(run, str):
                return f"it will be invalid: {run}"
        # --evals-plan tells more of gates itself.
        if options.plan or (gate.over != "population" and gate.margin is None):
            return ""
        from pytest_evals.gates.plan import weakness

        return weakness(gate, n)

    def _judged(self, gate: Gate) -> Verdict:
        """The verdict of a gate by itself; an early one where reading has stopped."""
        session, result = self._session, self.result_of(gate)
        if gate.when and (skipped := left_out(gate, session.machine)):
            return skipped
        early = session.stopping.verdict(gate, result) if session.stopping else None
        return early or judge(gate, result, session.options.inconclusive, self.find)

    def result_of(self, gate: Gate) -> TaskResult | GroupResult:
        """What a gate is about, over the documents that were run so far."""
        if gate.task in self._session.known.groups:
            return self._session.records.group_result(gate.task)
        return self._session.records.result(gate.task)
