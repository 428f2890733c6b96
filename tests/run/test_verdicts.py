"""Programs that ran before do not run again."""

from pytest_evals.run.verdicts import StoredVerdicts
from pytest_evals.sandbox.runner import Sandbox

ADD = "assert add(2, 3) == 5"
PAIRS = [("def add(a, b): return a + b", ADD), ("add = max", ADD), ("x", ADD)]


def test_a_verdict_is_stored_with_program_tests_time_and_level(tmp_path):
    stored = StoredVerdicts(tmp_path, reads=True)
    assert stored.find("process", PAIRS, 3.0) == [None] * 3
    stored.keep("process", PAIRS[0], 3.0, "passed")
    stored.keep("process", PAIRS[1], 3.0, "failed: ")
    stored.keep("process", PAIRS[2], 3.0, "timed out")
    stored.close()
    again = StoredVerdicts(tmp_path, reads=True)
    assert again.find("process", PAIRS, 3.0) == ["passed", "failed: ", None]
    assert again.find("bwrap", PAIRS, 3.0) == [None] * 3
    assert again.find("process", PAIRS, 4.0) == [None] * 3
    again.close()
    refreshed = StoredVerdicts(tmp_path, reads=False)
    assert refreshed.find("process", PAIRS, 3.0) == [None] * 3


def test_only_new_programs_run(tmp_path):
    sandbox = Sandbox("process", consents=True)
    sandbox.verdicts = StoredVerdicts(tmp_path, reads=True)
    expected = ["passed", "failed: ", "failed: name 'x' is not defined"]
    assert sandbox.test_all(PAIRS[:2], 3.0) == expected[:2]
    assert sandbox.n_programs == 2
    assert sandbox.test_all(PAIRS, 3.0) == expected
    assert sandbox.n_programs == 3
    sandbox.verdicts.close()
    sandbox.close()
