"""Programs that ran before do not run again."""

import pytest

from pytest_evals.run.verdicts import StoredVerdicts
from pytest_evals.sandbox.runner import Sandbox

ADD = "assert add(2, 3) == 5"
PAIRS = [("def add(a, b): return a + b", ADD), ("add = max", ADD), ("x", ADD)]


JOBS = ["a", "b", "c"]


def test_a_verdict_is_stored_by_level_and_job(tmp_path):
    stored = StoredVerdicts(tmp_path, reads=True)
    assert stored.find("process", JOBS) == [None] * 3
    stored.keep("process", "a", "passed")
    stored.keep("process", "b", "failed: ")
    stored.close()
    again = StoredVerdicts(tmp_path, reads=True)
    assert again.find("process", JOBS) == ["passed", "failed: ", None]
    assert again.find("bwrap", JOBS) == [None] * 3
    again.close()
    refreshed = StoredVerdicts(tmp_path, reads=False)
    assert refreshed.find("process", JOBS) == [None] * 3


@pytest.fixture
def sandbox(tmp_path):
    one = Sandbox("process", consents=True)
    one.verdicts = StoredVerdicts(tmp_path, reads=True)
    yield one
    one.verdicts.close()
    one.close()


def test_only_new_programs_run(sandbox):
    expected = ["passed", "failed: ", "failed: name 'x' is not defined"]
    assert sandbox.test_all(PAIRS[:2], 3.0) == expected[:2]
    assert sandbox.n_programs == 2
    assert sandbox.test_all(PAIRS, 3.0) == expected
    assert sandbox.n_programs == 3
    assert sandbox.test_all(PAIRS, 4.0) == expected
    assert sandbox.n_programs == 6  # the time limit belongs to the verdict


def test_results_of_programs_and_calls_are_stored_with_their_input(sandbox):
    limits = sandbox.limits.within(3)
    for _ in range(2):
        given = [sandbox.run("print(input())", stdin=s, limits=limits) for s in "ab"]
        assert [one.stdout for one in given] == ["a\n", "b\n"]
        code = "def add(a, b): return a + b"
        assert sandbox.call(code, "add", [1, 2], limits) == (True, 3)
        assert sandbox.call(code, "add", [2, 2], limits) == (True, 4)
        assert not sandbox.run("raise SystemExit(3)", limits=limits).ok
    assert sandbox.n_programs == 5


@pytest.mark.slow
def test_timeouts_run_again_because_they_depend_on_the_load(sandbox):
    limits = sandbox.limits.within(0.3)
    for _ in range(2):
        result = sandbox.run("while True: pass", limits=limits)
        assert result.reason == "timeout"
    assert sandbox.n_programs == 2
