"""``code_eval``: the same results as the library ``evaluate``."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.errors import EvalsError
from pytest_evals.sandbox.session import end_sandbox, set_sandbox
from pytest_evals.scorers.code_eval import CodeEval, pass_at_k


@pytest.fixture(autouse=True)
def _process():
    set_sandbox("process", consents=True)
    yield
    end_sandbox()


def test_the_example_of_the_library_has_its_results():
    """The example of the documentation of ``evaluate``."""
    rates, outcomes = CodeEval().compute(
        references=["assert add(2,3)==5"],
        predictions=[["def add(a,b): return a*b", "def add(a, b): return a+b"]],
        k=[1, 2, 10],
    )
    assert rates == {"pass@1": 0.5, "pass@2": 1.0}
    first, second = outcomes[0]
    assert second == (
        1,
        {"task_id": 0, "passed": True, "result": "passed", "completion_id": 1},
    )
    assert (first[0], first[1]["passed"], first[1]["result"]) == (0, False, "failed: ")


@pytest.mark.slow
def test_programs_that_do_not_end_or_start_fail_with_the_reason():
    programs = ["while True: pass", "def add(a, b):", "x = 1", ""]
    _, outcomes = CodeEval().compute(
        references=["assert add(2,3)==5"], predictions=[programs], k=[1], timeout=1
    )
    reasons = [one["result"] for _, one in outcomes[0]]
    assert reasons[0] == "timed out"
    assert reasons[1].startswith("failed: expected an indented block")
    assert reasons[2:] == ["failed: name 'add' is not defined"] * 2


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_proportion_of_draws_that_contain_a_correct_answer(n, data):
    correct = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    draws = list(combinations([True] * correct + [False] * (n - correct), k))
    share = sum(map(any, draws)) / len(draws)
    assert pass_at_k(n, correct, k) == pytest.approx(share)


def test_programs_of_a_model_need_consent_and_those_of_an_import_do_not():
    set_sandbox("process", consents=False)
    arguments = {"references": ["assert f() == 1"], "predictions": [["f = lambda: 1"]]}
    with pytest.raises(EvalsError, match="without a security boundary"):
        CodeEval().compute(**arguments)
    with CodeEval.during_import():
        assert CodeEval().compute(**arguments, k=[1])[0] == {"pass@1": 1.0}
