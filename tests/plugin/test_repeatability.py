"""``--evals-repeatability``: the variation of numbers between runs, and gates on it."""

import json

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Response
from pytest_evals.plugin.modes.repeatability import RerunModel

MODEL = """
import pytest
from pytest_evals import Response

class Model:
    name = "moody"
    n_requests = 0

    def answer(self, requests):
        Model.n_requests += 1
        order = [request.prompt for request in requests]
        with open("orders", "a") as file:
            file.write(" ".join(p.split()[1] for p in order) + "\\n")
        for position, request in enumerate(requests):
            number = int(request.prompt.split()[1].rstrip("?"))
            is_right = number != 3 and not (number == 5 and Model.n_requests % 2)
            yield position, Response(text=f"a{number}" if is_right else "no")

@pytest.fixture(scope="session")
def eval_model():
    return Model()
"""


def test_the_flip_rate_is_measured_recorded_and_used_by_gates(suite):
    suite.pytester.makeconftest(MODEL)
    gate = {"metric": "exact_match", "min": 0.5, "noise": "auto"}
    suite.task("quiz", gates=[gate, {**gate, "noise": "none", "id": "bare"}])
    done = suite.run(
        "evals",
        "--evals-repeatability=4",
        "--evals-save-baseline=main",
        "-v",
        model=None,
    )
    assert done.ret == 0
    assert done.parseoutcomes()["passed"] == 10  # items are those of one run
    done.stdout.fnmatch_lines(
        [
            "*= repeatability =*",
            "quiz: exact_match,none, 4 runs of 10 documents: mean 0.8500, *6.7% of *",
            "  sampling error of the documents themselves: 0.1129 *",
            "  threshold 0.*: this model fails it in *% of runs",
            "written to *baselines/main (noise)",
        ]
    )
    path = suite.pytester.path / ".evals" / "baselines" / "main" / "noise.json"
    noise = json.loads(path.read_text())["quiz"]["exact_match,none"]
    # one answer of ten flips between 4 of the 6 pairs of runs
    assert noise["flip_rate"] == pytest.approx(4 / 6 / 10)
    orders = (suite.pytester.path / "orders").read_text().splitlines()
    assert len(set(orders)) == 4
    assert suite.run("evals", "--evals-save-baseline=main", model=None).ret == 0
    assert path.is_file()
    (before, last) = sorted(suite.pytester.path.glob(".evals/runs/*/results.json"))
    first, bare = json.loads(before.read_text())["gates"]
    assert "the noise between runs is unknown" in first["reason"]
    first, bare = json.loads(last.read_text())["gates"]
    assert "flip rate 0.0666667" in first["interval"]["method"]
    assert bare["interval"] is None


LENGTHS = """
import pytest
from pytest_evals import Response

class Wordy:
    name = "wordy"
    n_requests = 0

    def answer(self, requests):
        Wordy.n_requests += 1
        for position, request in enumerate(requests):
            number = int(request.prompt.split()[1].rstrip("?"))
            more = number == 5 and Wordy.n_requests % 2
            yield position, Response(text="x" * (10 + number + 2 * more))

@pytest.fixture(scope="session")
def eval_model():
    return Wordy()
"""
TEXTS = """
def process_results(doc, results):
    return {"length": len(results[0])}
"""


def test_the_variance_of_a_mean_is_measured_and_used_by_gates(suite):
    """One of ten documents changes by 2 between runs of which two of four are alike:
    mean square 4 * (4 / 6) / 10, whose root is 0.516."""
    suite.pytester.makeconftest(LENGTHS)
    (suite.evals / "texts.py").write_text(TEXTS)
    path = suite.task(
        "quiz",
        metric_list=[
            {"metric": "length", "aggregation": "mean", "higher_is_better": False}
        ],
        gates=[{"metric": "length", "max": 15, "noise": "auto"}],
    )
    path.write_text(
        path.read_text() + "process_results: !function texts.process_results\n"
    )
    done = suite.run(
        "evals", "--evals-repeatability=4", "--evals-save-baseline=main", model=None
    )
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        [
            "quiz: length,none, 4 runs of 10 documents: mean 14.6000, *change by 0.516",
            "  threshold *: this model fails it in *% of runs",
            "written to *baselines/main (noise)",
        ]
    )
    path = suite.pytester.path / ".evals" / "baselines" / "main" / "noise.json"
    noise = json.loads(path.read_text())["quiz"]["length,none"]
    assert noise["mean_square"] == pytest.approx(4 * 4 / 6 / 10)
    assert suite.run("evals", "--evals-compare=main", model=None).ret == 0
    last = max(suite.pytester.path.glob(".evals/runs/*/results.json"))
    (gate,) = json.loads(last.read_text())["gates"]
    assert gate["interval"]["method"] == "documents change by 0.516 between runs"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--evals-repeatability=1"], "expected 2 or more runs"),
    ],
)
def test_repeatability_with_unsupported_options_is_a_usage_error(suite, arguments, why):
    done = suite.run("evals", *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*{why}*"])


@pytest.mark.slow
def test_workers_repeat_their_own_documents(suite):
    """Document 5 flips in one of two batches of its worker, in either order: one of ten
    answers, between one run and the other."""
    suite.pytester.makeconftest(MODEL)
    suite.task("quiz")
    arguments = ["evals", "--evals-repeatability=2", "--evals-save-baseline=main"]
    one = suite.run(*arguments, "-n2", model=None)
    assert one.ret == 0
    assert one.parseoutcomes()["passed"] == 8
    one.stdout.fnmatch_lines(
        [
            "quiz: exact_match,none, 2 runs of 10 documents: mean 0.8500, *10.0% of *",
            "written to *baselines/main (noise)",
        ]
    )
    prompts = (suite.pytester.path / "orders").read_text().split()
    assert sorted(prompts) == sorted(f"{i}?" for i in range(10) for _ in range(2))


def test_part_of_a_run_is_not_repeated(suite):
    done = suite.run("evals", "--evals-repeatability=2", "-x", "--evals-strict")
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        [
            "  no answer flipped: *",
            "the noise is not recorded: give --evals-save-baseline*",
        ]
    )
    suite.knows(wrong=[0])
    done = suite.run("evals", "--evals-repeatability=2", "-x", "--evals-strict")
    assert done.ret != 0
    done.stdout.fnmatch_lines(["not all documents were run: nothing was repeated"])


@pytest.mark.slow
def test_the_model_is_open_for_repeated_runs(suite, tiny_model_path):
    pytest.importorskip("transformers")
    suite.task("quiz", generation_kwargs={"max_gen_toks": 2}, gates=["exact_match < 1"])
    spec = f"hf:{tiny_model_path},device=cpu"
    done = suite.run("evals", "--evals-repeatability=2", model=spec)
    assert done.ret == 0
    done.stdout.fnmatch_lines(["quiz: exact_match,none, 2 runs of 10 documents: *"])


def test_repeated_runs_with_equal_samples_are_refused(suite):
    suite.task("quiz", generation_kwargs={"do_sample": True, "temperature": 0.7})
    suite.task("quiz", generation_kwargs={"do_sample": True, "temperature": 0.7})
    done = suite.run("evals", "--evals-repeatability=3")
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        ["the generations are sampled, but identical in every run*"]
    )


def test_each_repeated_run_has_new_repeat_numbers_and_bypasses_the_store():
    seen = []

    class Model:
        name = "model"

        def answer(self, requests):
            seen.extend(requests)
            for position, _ in enumerate(requests):
                yield position, Response(text=str(position))

    greedy, sampled = Generate("a"), Generate("b", temperature=1.0, repeat=2)
    likely = Loglikelihood("c", " d")
    answers = dict(RerunModel(Model(), 3).answer([sampled, greedy, likely]))
    assert sorted(answers) == [0, 1, 2]
    assert [answers[i].text for i in range(3)] == ["0", "0", "1"]
    assert seen[:2] == [greedy, likely]
    assert (seen[2].prompt, seen[2].repeat) == ("b", 3_000_002)
