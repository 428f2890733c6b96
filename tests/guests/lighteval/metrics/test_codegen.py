"""Generated programs, run against the tests of their problem. The expected results
follow LiveCodeBench's rules (lighteval 0.13.0, ``tasks/lcb``)."""

import time

import pytest

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.catalogue import CATALOGUE
from pytest_evals.guests.lighteval.metrics.codegen import (
    Cases,
    CodegenMetric,
    passes,
)
from pytest_evals.scorers.custom_metrics.response import ModelResponse

SUMS = Cases(inputs=["1 2\n"], outputs=["3\n"])
CALLS = Cases(inputs=["[1, 2]\n3"], outputs=["[4, 5]"], function="add")


@pytest.mark.parametrize(
    ("code", "passed"),
    [
        ("print(sum(map(int, input().split())))", True),
        ("print(' 3.0 ')", True),  # decimals are compared as such
        ("print(3); print()", True),
        ("print(3); print(4)", False),
        ("print(4)", False),
        ("print(3); sys.exit()", True),
        ("print(3); raise ValueError", False),
        ("if __name__ == '__main__':\n    print(3)", True),
        ("print(pow(3, 1, 5))", True),  # the built-in one, not that of math
        ("syntax error", False),
        ("", False),
    ],
)
def test_a_program_reads_its_input_and_prints(code, passed):
    assert passes(code, SUMS) is passed


@pytest.mark.parametrize(
    ("code", "passed"),
    [
        ("def add(xs: List[int], n): return [x + n for x in xs]", True),
        ("def add(xs, n): return tuple(x + n for x in xs)", True),
        ("class Solution:\n  def add(self, xs, n): return [x + n for x in xs]", True),
        ("def add(xs, n): print('noise'); return [4, 5]", True),
        ("def add(xs, n): return [4, 6]", False),
        ("def other(): pass", False),
        ("print([4, 5]); sys.exit()", False),  # ended before it read its input
    ],
)
def test_a_function_is_called(code, passed):
    assert passes(code, CALLS) is passed


@pytest.mark.slow
def test_a_program_that_does_not_end_is_ended():
    start = time.monotonic()
    assert not passes("while True: pass", SUMS, seconds=0.5)
    assert time.monotonic() - start < 5


def test_the_metric_is_the_proportion_of_answers_that_pass():
    specific = {"inputs": ["1 2\n"], "outputs": ["3"], "fn_name": None}
    doc = Doc("q", [""], 0, specific=specific)
    texts = ["```python\nprint(3)\n```", "```\nprint(4)\n```", "print(3)"]
    metric = CATALOGUE["lcb_codegen_metric"]()
    found = metric.compute_sample(doc, ModelResponse(text=texts))
    assert found == {"codegen_pass@1:16": pytest.approx(1 / 3)}
    two = CodegenMetric(2).compute(doc, ModelResponse(text=texts))
    assert (two, CodegenMetric(2).num_samples()) == (0.5, 2)


@pytest.mark.parametrize(
    ("specific", "what"),
    [
        ({}, "must be lists of equal length"),
        ({"inputs": ["1"], "outputs": []}, "must be lists of equal length"),
        (
            {"inputs": ["1"], "outputs": ["x"], "fn_name": "f"},
            "results of f must be JSON",
        ),
    ],
)
def test_missing_or_invalid_test_cases_are_errors(specific, what):
    doc = Doc("q", [""], 0, specific=specific)
    with pytest.raises(DocumentError, match=what):
        CodegenMetric().compute(doc, ModelResponse(text=["```\nprint()\n```"]))
