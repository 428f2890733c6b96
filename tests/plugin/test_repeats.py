"""Gates on tasks that send each document several times, in whole runs."""

from __future__ import annotations

import json

import pytest

CONFTEST = """
import pytest
from pytest_evals import Response

class Dice:
    name = "dice"

    def answer(self, requests):
        for position, request in enumerate(requests):
            number = request.prompt.split()[-1].rstrip("?")
            wrong = {copies} or (int(number) + request.repeat) % 2
            yield position, Response(text="nonsense" if wrong else f"a{{number}}")

@pytest.fixture(scope="session")
def eval_model():
    return Dice()
"""


@pytest.fixture
def dice(suite):
    """Four responses per document, two of them correct."""
    gates = [
        {"metric": "exact_match", "min": 0.5, "reducer": "mean", "id": "mean"},
        {"metric": "exact_match", "min": 0.8, "reducer": "pass@2", "id": "pass"},
        {"metric": "exact_match", "min": 0.5, "id": "first"},
    ]
    sampling = {"until": ["#"], "do_sample": True, "temperature": 0.7}
    suite.task("quiz", repeats=4, gates=gates, generation_kwargs=sampling)
    path = suite.evals / "quiz.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [
        json.dumps({**row, "passage": i // 2}) + "\n" for i, row in enumerate(rows)
    ]
    path.write_text("".join(lines))
    suite.pytester.makeconftest(CONFTEST.format(copies=False))
    return suite


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_all_answers_of_a_document_are_scored(dice, workers):
    result = dice.pytester.runpytest("evals", *workers)
    assert result.ret == 0
    (path,) = dice.pytester.path.glob(".evals/runs/*/results.json")
    found = {one["id"]: one for one in json.loads(path.read_text())["gates"]}
    # of two of four answers, at least one is correct in 5 of 6 draws
    assert found["mean"]["value"] == 0.5
    assert found["pass"]["value"] == pytest.approx(5 / 6)
    assert found["first"]["value"] == 0.5


def test_equal_answers_to_repeats_are_refused(dice):
    dice.pytester.makeconftest(CONFTEST.format(copies=True))
    result = dice.run("evals", model=None)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*so they are copies and not independent*"])


def test_too_few_repeats_are_reported_before_the_run(suite):
    gate = {"metric": "exact_match", "min": 0.5, "reducer": "pass@8"}
    suite.task("quiz", repeats=2, gates=[gate])
    result = suite.run("evals")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*reducer 'pass@8' needs 8 answers to each document*repeats: 8 there"]
    )


TESTS = """
    from pytest_evals import assert_gate

    CLAIM = "quiz/exact_match"

    def test_baseline(eval_results):
        keys = {"baseline": "main", "max_drop": 0, "over": "run"}
        found = assert_gate(CLAIM, eval_results, **keys)
        assert (found.change.n, found.change.lost) == (10, 0)

    def test_cluster(eval_results):
        found = assert_gate(CLAIM, eval_results, min=0.05, cluster="passage")
        assert found.interval.method.startswith("clustered Gaffke, design effect")

    def test_reducer(eval_results):
        found = assert_gate(CLAIM, eval_results, min=0.8, reducer="pass@2")
        assert abs(found.metric.estimate.value - 5 / 6) < 1e-12

    def test_both(eval_results):
        keys = {"baseline": "main", "max_drop": 0.3, "reducer": "mean"}
        found = assert_gate(CLAIM, eval_results, **keys)
        assert (found.change.before, found.change.now, found.change.n) == (0.5, 0.5, 10)
"""


@pytest.mark.slow
def test_assert_gate_can_use_repeats_without_a_gate_in_a_file(dice):
    """Clusters, single responses and baselines are stored even if no gate of the suite
    needs them; the baseline of the other runs is saved by the first."""
    (dice.evals / "quiz.yaml").write_text(
        (dice.evals / "quiz.yaml").read_text().split("gates:")[0]
        + "generation_kwargs: {until: ['#'], do_sample: true, temperature: 0.7}\n"
    )
    dice.pytester.makepyfile(test_late=TESTS)
    first = dice.run("evals", "test_late.py", "--evals-save-baseline=main", model=None)
    assert first.parseoutcomes() == {"passed": 7, "wrong": 5, "skipped": 2}
    for workers in ((), ("-n2",)):
        done = dice.run("evals", "test_late.py", *workers, model=None)
        assert done.parseoutcomes() == {"passed": 9, "wrong": 5}


def test_a_reducer_with_a_baseline_compares_paired_documents(dice):
    path = dice.evals / "quiz.yaml"
    gate = (
        "- {metric: exact_match, baseline: main, max_drop: 0.02, reducer: mean, id: k}"
    )
    path.write_text(path.read_text().replace("gates:", f"gates:\n{gate}"))
    dice.run("evals", "--evals-save-baseline=main", model=None)
    worse = CONFTEST.replace("% 2\n", "% 2 or request.repeat == 3\n")
    dice.pytester.makeconftest(worse.format(copies=False))
    result = dice.run("evals", model=None)
    # one of two correct answers of each second document is lost, of ten
    result.stdout.fnmatch_lines(
        ["quiz::k inconclusive, not enough*: 0.375 vs main 0.500: -12.50,*"]
    )


EVAL = """
prompt: "{{{{q}}}}"
rows: [{{id: a, q: "one?", target: "yes"}}, {{id: b, q: "one?", target: "yes"}}]
repeats: {repeats}
gates: [exact >= 0.9, {{every: {repeats} of {repeats}}}]
"""
CALLS = """
import pytest
from pytest_evals import Response

class Coin:
    name = "coin"
    fingerprint = {"coin": 1}

    def answer(self, requests):
        with open("calls.txt", "a") as file:
            for request in requests:
                file.write(f"{request.prompt}{request.repeat} ")
        for position, request in enumerate(requests):
            yield position, Response(text="no" if request.repeat % 2 else "yes")

@pytest.fixture(scope="session")
def eval_model():
    return Coin()
"""


def verdicts(pytester):
    path = max(pytester.path.glob(".evals/runs/*/results.json"))
    results = json.loads(path.read_text())
    gates = {one["id"]: (one["outcome"], one.get("value")) for one in results["gates"]}
    return gates, results


def test_each_repeat_is_a_call_of_an_application(pytester):
    """A coin, at temperature 0: two documents share a prompt, and so four calls."""
    pytester.makepyfile(
        coin="import itertools\n"
        "n = itertools.count()\n"
        "def respond(prompt):\n"
        "    return 'no' if next(n) % 2 else 'yes'\n"
    )
    pytester.path.joinpath("c.yaml").write_text(EVAL.format(repeats=4))
    pytester.syspathinsert()
    result = pytester.runpytest("--model=python:coin:respond")
    assert result.ret == 1
    gates, results = verdicts(pytester)
    assert gates["exact"] == ("failed", 0.5)
    assert gates["every"][0] == "failed"
    assert results["n_requests"] == 4
    result.stdout.fnmatch_lines(["*answers: a (2 of 4), b (2 of 4)"])


def test_more_repeats_keep_stored_answers_and_ask_for_the_missing_ones(pytester):
    pytester.makeconftest(CALLS)
    for repeats, calls in [(1, ["one?0"]), (3, ["one?1", "one?2"]), (3, [])]:
        pytester.path.joinpath("c.yaml").write_text(EVAL.format(repeats=repeats))
        log = pytester.path / "calls.txt"
        log.write_text("")
        pytester.runpytest("c.yaml")
        assert log.read_text().split() == calls
    gates, _ = verdicts(pytester)
    assert gates["exact"] == ("failed", 2 / 3)


def test_a_deterministic_model_answers_once_and_gates_count_one_answer(pytester):
    pytester.path.joinpath("c.yaml").write_text(EVAL.format(repeats=4))
    answers = pytester.path / "yes.jsonl"
    answers.write_text('{"text": "yes"}\n')
    result = pytester.runpytest("c.yaml", f"--model=scripted:{answers}")
    assert result.ret == 0
    gates, results = verdicts(pytester)
    assert (gates["exact"], gates["every"][0]) == (("passed", 1.0), "passed")
    assert results["n_requests"] == 1
    (warning,) = [one for one in results["warnings"] if "repeats: 4" in one]
    assert "deterministic at temperature 0" in warning
    assert warning.endswith("(2 documents, first document a)")
    result.stdout.fnmatch_lines(["warning: c: repeats: 4 give one answer*"])


def test_a_model_object_may_be_deterministic(pytester):
    one = CALLS.replace('"coin"\n    f', '"coin"\n    is_deterministic = True\n    f')
    assert "is_deterministic" in one
    pytester.makeconftest(one)
    pytester.path.joinpath("c.yaml").write_text(EVAL.format(repeats=4))
    assert pytester.runpytest("c.yaml").ret == 0
    assert (pytester.path / "calls.txt").read_text().split() == ["one?0"]


RERUNS = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    "Run a failed test again, as pytest-rerunfailures does."
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
"""
NUMBERS = """
prompt: "{{q}}"
rows: [{id: a, q: one, target: one}, {id: b, q: two, target: zwei}]
gates: [exact >= 0.9]
"""


def test_the_first_answer_counts_if_a_plugin_reruns_failed_documents(pytester):
    pytester.makeconftest(RERUNS)
    pytester.makepyfile(
        app="calls = []\n"
        "def respond(prompt):\n"
        "    calls.append(prompt)\n"
        "    return 'zwei' if calls.count('two') > 1 else prompt\n"
    )
    pytester.path.joinpath("numbers.yaml").write_text(NUMBERS)
    pytester.syspathinsert()
    result = pytester.runpytest("--model=python:app:respond", "--evals-strict")
    assert result.ret == 1
    gates, results = verdicts(pytester)
    assert gates["exact"] == ("failed", 0.5)
    assert results["n_requests"] == 2
    (warning,) = [one for one in results["warnings"] if "reruns" in one]
    assert "its first answer counts" in warning
    assert warning.endswith("(document b)")


def test_a_document_without_an_answer_may_be_sent_again(pytester):
    """Its error is replaced in results and samples, and the rerun is reported."""
    pytester.makeconftest(RERUNS)
    pytester.makepyfile(
        broken="calls = []\n"
        "def respond(prompt):\n"
        "    calls.append(prompt)\n"
        "    if calls.count('two') == 1:\n"
        "        raise ValueError('down')\n"
        "    return 'zwei' if prompt == 'two' else prompt\n"
    )
    pytester.path.joinpath("numbers.yaml").write_text(NUMBERS)
    pytester.syspathinsert()
    assert pytester.runpytest("--model=python:broken:respond").ret == 0
    gates, results = verdicts(pytester)
    assert gates["exact"] == ("passed", 1.0)
    assert any("were sent again" in one for one in results["warnings"])
    (samples,) = pytester.path.glob(".evals/runs/*/samples_numbers.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [(row["id"], row["status"]) for row in rows] == [
        ("a", "scored"),
        ("b", "scored"),
    ]


@pytest.mark.parametrize(
    ("keys", "warns"),
    [
        ({}, True),
        ({"gates": [{"metric": "exact_match", "min": 0, "reducer": "mean"}]}, False),
    ],
)
def test_repeats_without_a_filter_are_reported(suite, keys, warns):
    suite.task("quiz", repeats=2, generation_kwargs={"temperature": 1}, **keys)
    result = suite.run("evals")
    assert ("score the first answer only" in result.stdout.str()) is warns
