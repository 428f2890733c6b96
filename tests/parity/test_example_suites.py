"""The suites that are shipped: their data, their model and their gates."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from pytest_evals import evaluate
from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.core.model import Model
from pytest_evals.core.request import Generate, Response, Rolling
from pytest_evals.core.result import RunResult
from pytest_evals.core.task import TaskOptions
from pytest_evals.dialects.gates_section.suite_gates import load_gates
from pytest_evals.dialects.task_index.lookup import TaskLookup
from pytest_evals.gates.judge import judge
from pytest_evals.models.registry import open_model, parse_spec

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def toyworld(example_suites):
    spec = importlib.util.spec_from_file_location(
        "toyworld", example_suites / "toyworld.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Constant:
    """A broken engine: every request gets the same response."""

    name = "constant"

    def answer(self, requests, /) -> Iterator[tuple[int, Response]]:
        for position, request in enumerate(requests):
            if isinstance(request, Generate):
                yield position, Response(text="")
            elif isinstance(request, Rolling):
                yield position, Response(logprob=-1000.0)
            else:
                yield position, Response(logprob=-50.0, greedy=False)


def test_data_files_equal_the_output_of_the_script(example_suites, toyworld):
    folder = example_suites / "lm_eval" / "data"
    on_disk = {
        path.name: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in folder.glob("*.jsonl")
    }
    assert on_disk == toyworld.data_files()


def test_unknown_capitals_and_products_are_in_no_training_text(toyworld):
    text = "".join(islice(toyworld.pages(Random(3)), 3000))
    known = [c.known for c in toyworld.countries() if c.capital in text]
    assert all(known)
    assert len(known) == 100
    assert "*" not in text


def test_the_same_seed_gives_the_same_training_texts(toyworld):
    first, again = (list(islice(toyworld.pages(Random(3)), 50)) for _ in range(2))
    assert first == again


def test_the_bundled_model_stays_small(tiny_model_path):
    size = sum(path.stat().st_size for path in tiny_model_path.iterdir())
    assert size < MOST_BYTES


@pytest.mark.slow
def test_all_gates_of_the_suite_pass_with_the_bundled_model(
    example_suites, tiny_model_path
):
    pytest.importorskip("transformers")
    spec = parse_spec(f"hf:{tiny_model_path},dtype=float32,device=cpu")
    verdicts = _verdicts(example_suites / "lm_eval", open_model(spec))
    folder = example_suites / "lm_eval"
    files = [*_task_files(folder), *_group_files(folder)]
    assert {v.gate.task for v in verdicts} == {path.stem for path in files}
    assert [v for v in verdicts if v.outcome is not Outcome.PASSED] == []


@pytest.mark.slow
def test_every_task_has_a_gate_that_a_broken_engine_fails(
    example_suites,
):
    verdicts = _verdicts(example_suites / "lm_eval", Constant())
    # A constant model ties all choices, which makes their gates invalid.
    red = {v.gate.task for v in verdicts if v.is_red}
    tasks = {path.stem for path in _task_files(example_suites / "lm_eval")}
    groups = {path.stem for path in _group_files(example_suites / "lm_eval")}
    assert red == tasks | groups


@pytest.mark.slow
def test_the_lighteval_module_gives_the_numbers_of_the_lm_eval_suite(
    example_suites, tiny_model_path
):
    """The same questions in another dialect; the numbers are lm-eval 0.4.13's, which
    are in ``recorded``."""
    pytest.importorskip("transformers")
    spec = parse_spec(f"hf:{tiny_model_path},dtype=float32,device=cpu")
    found = _of_lighteval(example_suites, open_model(spec))
    assert [v.outcome for v in found.verdicts] == [Outcome.PASSED] * 4
    numbers = {
        metric.name: metric.estimate.value
        for task in found.tasks
        for metric in task.metrics
    }
    recorded = Path(__file__).parent / "recorded"
    for name, metrics in {
        "capitals": ("acc", "acc_norm"),
        "stories": ("word_perplexity", "bits_per_byte"),
    }.items():
        text = (recorded / f"{name}.json").read_text()
        theirs = json.loads(text)["results"]
        for metric in metrics:
            value = theirs[f"{metric},none"]
            assert numbers[metric] == pytest.approx(value, rel=1e-4), metric


@pytest.mark.slow
def test_a_broken_engine_fails_the_gates_of_the_module_of_lighteval(example_suites):
    found = _of_lighteval(example_suites, Constant())
    assert all(verdict.is_red for verdict in found.verdicts)
    assert len(found.verdicts) == 4


def _of_lighteval(example_suites: Path, model: Model) -> RunResult:
    folder = example_suites / "lighteval"
    found = evaluate([folder / "eval_toyworld.py"], model)
    results = {result.task.name: result for result in found.tasks}
    gates: tuple[Gate, ...] = load_gates(folder / "gates.yaml")
    verdicts = tuple(judge(gate, results[gate.task]) for gate in gates)
    return replace(found, verdicts=verdicts)


def _task_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.glob("*.yaml")
        if not path.name.startswith("_") and path.name != "gates.yaml"
    )


def _group_files(folder: Path) -> list[Path]:
    return sorted((folder / "groups").glob("*.yaml"))


def _verdicts(folder: Path, model: Model) -> list[Verdict]:
    """Of the gates in the files of tasks and groups, and in gates files."""
    files = [*_task_files(folder), *_group_files(folder)]
    found = evaluate(files, model, TaskOptions(library=TaskLookup(folder)))
    results = {result.task.name: result for result in found.tasks}
    beside: tuple[Gate, ...] = load_gates(folder / "gates.yaml")
    return [*found.verdicts, *(judge(gate, results[gate.task]) for gate in beside)]


@pytest.mark.slow
def test_the_policy_of_the_latticeflow_suite_holds_for_the_bundled_model_only(
    example_suites, tiny_model_path
):
    path = example_suites / "latticeflow" / "run.yaml"
    spec = f"hf:{tiny_model_path},dtype=float32,device=cpu"
    verdicts = {v.gate.task: v.outcome for v in evaluate([path], spec).verdicts}
    assert verdicts == {"sums": Outcome.PASSED, "sound": Outcome.PASSED}
    others = {v.gate.task: v.outcome for v in evaluate([path], Constant()).verdicts}
    assert others == {"sums": Outcome.FAILED, "sound": Outcome.PASSED}
