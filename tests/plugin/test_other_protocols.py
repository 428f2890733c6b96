"""Another plugin runs items with its own protocol, as pytest-rerunfailures does (16.7:
a hook ``pytest_runtest_protocol`` that calls ``runtestprotocol`` and sets the outcome
``rerun`` for a failure that is repeated)."""

import pytest

pytestmark = pytest.mark.slow


AGAIN = """
import pytest
from _pytest.runner import runtestprotocol
from pytest_evals import Response

def pytest_runtest_protocol(item, nextitem):
    for attempt in range(2):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        failed = any(report.failed for report in reports)
        for report in reports:
            if report.failed and attempt == 0:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if not failed:
            break
    return True

def pytest_report_teststatus(report):
    if report.outcome == "rerun":
        return "rerun", "R", ("RERUN", {"yellow": True})

class Busy:
    name = "busy"

    def __init__(self):
        self.seen = set()

    def answer(self, requests):
        for position, request in enumerate(requests):
            number = request.prompt.split()[1].rstrip("?")
            busy = number in "369" and number not in self.seen
            self.seen.add(number)
            answer = {"error": "busy"} if busy else {"text": "a" + number}
            yield position, Response(**answer)

@pytest.fixture(scope="session")
def eval_model():
    return Busy()
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_rerun_documents_count_once(suite, workers):
    suite.task("quiz", gates=["exact_match >= 1"])
    suite.pytester.makeconftest(AGAIN)
    result = suite.run("evals", "-n", workers, model=None)
    assert (result.ret, result.parseoutcomes()) == (0, {"passed": 11, "rerun": 3})
    assert len(suite.samples()) == 10


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_document_whose_errors_repeat_counts_once_for_the_error_budget(
    suite, workers
):
    """3 of 10 documents fail on every attempt; 10 attempts each are 30 errors."""
    suite.task("quiz")
    again = AGAIN.replace("range(2)", "range(10)").replace(
        "attempt == 0", "attempt < 9"
    )
    never = again.replace(" and number not in self.seen", "")
    suite.pytester.makeconftest(never)
    more = ("-n", workers, "--evals-max-errors=5%")
    result = suite.run("evals", *more, model=None)
    assert "the run stops" not in result.stdout.str()
    outcomes = result.parseoutcomes()
    assert (outcomes["rerun"], outcomes["passed"]) == (27, 7)
