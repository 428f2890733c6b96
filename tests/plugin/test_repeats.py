"""Gates on tasks that ask several times, through whole runs."""

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
    """Four answers to each document, two of them right."""
    gates = [
        {"metric": "exact_match", "min": 0.5, "reducer": "mean", "id": "mean"},
        {"metric": "exact_match", "min": 0.8, "reducer": "pass@2", "id": "pass"},
        {"metric": "exact_match", "min": 0.5, "id": "first"},
    ]
    sampling = {"until": ["#"], "do_sample": True, "temperature": 0.7}
    suite.task("quiz", repeats=4, gates=gates, generation_kwargs=sampling)
    suite.pytester.makeconftest(CONFTEST.format(copies=False))
    return suite


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["plain", "n2"])
def test_each_answer_counts_beside_the_first(dice, workers):
    result = dice.pytester.runpytest("evals", *workers)
    assert result.ret == 0
    (path,) = dice.pytester.path.glob(".evals/runs/*/results.json")
    found = {one["id"]: one for one in json.loads(path.read_text())["gates"]}
    # Of two of four answers, at least one is right in 5 of 6 draws.
    assert found["mean"]["value"] == 0.5
    assert found["pass"]["value"] == pytest.approx(5 / 6)
    assert found["first"]["value"] == 0.5


def test_copies_are_refused(dice):
    dice.pytester.makeconftest(CONFTEST.format(copies=True))
    result = dice.run("evals", model=None)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*copies of one answer are no evidence*"])


def test_too_few_answers_are_told_before_the_run(suite):
    gate = {"metric": "exact_match", "min": 0.5, "reducer": "pass@8"}
    suite.task("quiz", repeats=2, gates=[gate])
    result = suite.run("evals")
    assert result.ret != 0
    result.stdout.fnmatch_lines(
        ["*reducer 'pass@8' needs 8 answers to each document*repeats: 8 there"]
    )
