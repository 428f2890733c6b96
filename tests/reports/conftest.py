"""Results for reports, created by hand."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.core.gate import Bound, Gate, Outcome, Verdict
from pytest_evals.core.metric import Estimate, Metric, MetricResult
from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import Generate, Response
from pytest_evals.core.result import RunResult, TaskResult
from pytest_evals.core.task import Task
from pytest_evals.errors import Place


@dataclass(frozen=True)
class Ids:
    """Rows with ids only."""

    names: tuple[str, ...]

    def ids(self):
        return self.names

    def indices(self):
        return range(len(self.names))

    def total(self):
        return len(self.names)


class Make:
    """Shorthand for records, tasks and results."""

    def task(self, name="gsm8k", *, ids=(), metrics=("acc",), **facts):
        return Task(
            name=name,
            source=Place(Path(f"evals/{name}.yaml"), 1),
            rows=Ids(tuple(ids)),
            ask=lambda index: None,
            score=lambda record: (),
            metrics=tuple(
                Metric(name=metric, aggregate=lambda values: Estimate(0.0))
                for metric in metrics
            ),
            **facts,
        )

    def metric(self, value, stderr=None, name="acc", pipeline="none", **counts):
        return MetricResult(
            name=name,
            filter=pipeline,
            estimate=None if value is None else Estimate(value, stderr, "analytic"),
            **counts,
        )

    def result(self, task, *metrics, n=200, n_total=None, records=(), **counts):
        return TaskResult(
            task=task,
            records=tuple(records),
            metrics=metrics,
            n_selected=n,
            n_total=n_total or n,
            **counts,
        )

    def record(self, index, correct, *, prompt="", text="", gold="", error=""):
        score = Score(metric="acc", value=correct, correct=correct, answer=text)
        return Record(
            task="gsm8k",
            index=index,
            doc=Doc(prompt, [gold], 0),
            requests=(Generate(prompt=prompt),) if prompt else (),
            responses=(Response(text=text),) if prompt and not error else (),
            scores=() if error else (score,),
            error=error,
        )

    def gate(self, text="acc >= 0.75", *, task="gsm8k", metric="acc", must_pass=()):
        words = text.split()
        return Gate(
            id="must-pass" if must_pass else metric,
            task=task,
            metric="" if must_pass else metric,
            bounds=() if must_pass else (Bound(words[1], Decimal(words[2])),),
            must_pass=must_pass,
            text=text,
            source=Place(Path(f"evals/{task}.yaml"), 31),
        )

    def verdict(self, gate, outcome, **facts):
        return Verdict(gate=gate, outcome=Outcome(outcome), **facts)

    def run(self, *tasks, verdicts=(), **facts):
        return RunResult(
            model="hf:acme/llm-8b", tasks=tasks, verdicts=verdicts, **facts
        )


@pytest.fixture
def make():
    """The shorthand for records, tasks and results."""
    return Make()
