"""The types that users of the public names see: mypy checks this file, nothing runs it.

Each ``assert_type`` is an error of mypy if a name gets another type, such as ``Any``. A
``type: ignore`` that is not needed any more is an error, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_type

import pytest_evals as ev
from pytest_evals import Generate, Loglikelihood, Response, Rolling
from pytest_evals.core.gate import Outcome


class Parrot:
    """A model without a base class."""

    name = "parrot"

    def answer(
        self, requests: Sequence[Generate | Loglikelihood | Rolling], /
    ) -> Iterator[tuple[int, Response]]:
        for position, request in enumerate(requests):
            if isinstance(request, Generate):
                yield position, Response(text=str(request.prompt), finish="stop")


class Derived(ev.Model):
    """A model with the base class."""

    name = "derived"

    def answer(
        self, requests: Sequence[Generate | Loglikelihood | Rolling], /
    ) -> Iterable[tuple[int, Response]]:
        return enumerate([Response(text="yes")])


@ev.eval
def bare() -> Iterator[ev.Case]:
    yield ev.case("How?", target="so")


@ev.eval(score=[ev.contains(), ev.exact(ignore_case=True)], gates=["contains >= 0.9"])
def support() -> Iterator[ev.Case]:
    yield ev.case([{"role": "user", "content": "How?"}], target="so", id="a", topic=1)


@support.score
def polite(answer: str, case: ev.Case) -> bool:
    return "please" in answer


@support.score("length", range=(0, 100))
def length(answer: str) -> float:
    return len(answer)


def evals() -> None:
    assert_type(bare, ev.Eval)
    assert_type(support, ev.Eval)
    assert_type(polite("", ev.case("How?")), bool)
    assert_type(length(""), float)
    ev.case(1)  # type: ignore[arg-type]
    ev.contains(ignore_cases=True)  # type: ignore[call-arg]


def runs(path: Path) -> None:
    result = ev.evaluate("evals", "hf:gpt2")
    assert_type(result, ev.RunResult)
    ev.evaluate(["evals", "more.yaml"], Parrot(), folder=path, compare="main")
    ev.evaluate(support, Derived())
    ev.evaluate(
        [{"q": "one", "a": "two"}],
        lambda prompt: prompt,
        prompt="{{q}}",
        target="{{a}}",
        options=ev.TaskOptions(limit=2),
    )
    ev.evaluate("evals", Parrot(), stop="never")  # type: ignore[call-overload]
    ev.evaluate("evals", 7)  # type: ignore[call-overload]
    several = ev.evaluate("evals", ["hf:gpt2", Parrot()], reference="gpt2")
    assert_type(several, ev.ModelResults)
    assert_type(several["gpt2"], ev.RunResult)
    assert_type(result.verdicts, tuple[ev.Verdict, ...])
    assert_type(result.tasks, tuple[ev.TaskResult, ...])
    task = result.tasks[0]
    assert_type(task.records, tuple[ev.Record, ...])
    assert_type(task.metrics, tuple[ev.MetricResult, ...])
    assert_type(task.n_correct, int)
    record = task.records[0]
    assert_type(record.doc, ev.Doc)
    assert_type(record.scores, tuple[ev.Score, ...])
    assert_type(record.responses, tuple[Response, ...])


def gates() -> None:
    verdict = ev.judge_gate("acc >= 0.9", [True, False, None, 0.5])
    assert_type(verdict, ev.Verdict)
    assert_type(verdict.outcome, Outcome)
    assert_type(verdict.gate, ev.Gate)
    assert_type(verdict.metric, ev.MetricResult | None)
    verdicts = ev.judge_gates({"one": ({"metric": "acc", "min": 0.9}, [1, 0])})
    assert_type(verdicts, dict[str, ev.Verdict])


def test_results(eval_results: ev.EvalResults) -> None:
    assert_type(ev.assert_gate("quiz/acc >= 0.8", eval_results), ev.Verdict)


def pytest_evals_score(record: ev.Record, task: ev.Task) -> Sequence[ev.Score] | None:
    return [ev.Score(metric="length", value=1.0)]


def pytest_evals_metrics(
    task: ev.Task, records: Sequence[ev.Record]
) -> Mapping[str, float | ev.Estimate] | None:
    return {"n": len(records)}


def pytest_evals_result(result: ev.RunResult) -> None:
    given: Any = result
    print(given)
