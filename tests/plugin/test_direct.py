"""Whoever listens to the hooks that tell of a test hears of each document, however they
are called: directly in a plain process, by pluggy as soon as somebody wraps one of them
or listens to pluggy itself, as pytester does in its own process."""

LISTENER = """
import pytest

def note(*words):
    with open("heard.txt", "a") as file:
        print(*words, file=file)

def pytest_runtest_logstart(nodeid):
    note("start", nodeid)

def pytest_runtest_logreport(report):
    note("report", report.nodeid, report.when, report.outcome)

def pytest_runtest_logfinish(location, nodeid):
    note("finish", nodeid, location[2])
"""
WRAPPER = """
@pytest.hookimpl(wrapper=True)
def pytest_runtest_logreport(report):
    note("before", report.nodeid)
    return (yield)
"""
LATE = """
class Late:
    def pytest_runtest_logfinish(self, nodeid):
        note("late", nodeid)

def pytest_runtest_setup(item):
    if not item.config.pluginmanager.has_plugin("late"):
        item.config.pluginmanager.register(Late(), "late")
"""


def heard(suite, **where):
    notes = suite.pytester.path / "heard.txt"
    notes.unlink(missing_ok=True)
    run = suite.pytester.runpytest
    if where.get("own_process"):
        run = suite.pytester.runpytest_subprocess
    assert run("--model=scripted:answers.jsonl").ret == 0
    return notes.read_text().splitlines()


def test_direct_calls_are_heard_as_pluggys_are(suite):
    suite.pytester.makeconftest(LISTENER)
    by_pluggy = heard(suite)
    assert by_pluggy.count("start evals/quiz.yaml::quiz[q4]") == 1
    assert heard(suite, own_process=True) == by_pluggy


def test_a_wrapper_runs_around_each_report(suite):
    suite.pytester.makeconftest(LISTENER + WRAPPER)
    told = heard(suite, own_process=True)
    assert told == heard(suite)
    assert sum(line.startswith("before ") for line in told) >= 10


def test_a_plugin_that_comes_with_the_first_document_hears_of_the_others(suite):
    suite.pytester.makeconftest(LISTENER + LATE)
    told = heard(suite, own_process=True)
    assert [line for line in told if line.startswith("late ")] == [
        f"late evals/quiz.yaml::quiz[q{i}]" for i in range(10)
    ]


LOGGING = """
import logging
import pytest

@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid):
    logging.getLogger("suite").warning("done %s", nodeid)
"""


def test_a_log_that_is_watched_live_says_when_a_line_was_written(suite):
    suite.pytester.makeconftest(LOGGING)
    flags = ("--model=scripted:answers.jsonl", "-o", "log_cli=true")
    shown = [
        [line for line in run(*flags).outlines if "live log" in line or "done" in line]
        for run in (suite.pytester.runpytest, suite.pytester.runpytest_subprocess)
    ]
    assert shown[0] == shown[1]
    assert sum("live log finish" in line for line in shown[1]) == 10


STATUSES = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_report_teststatus(report):
    status = yield
    is_odd = report.when == "call" and report.nodeid.endswith("[q4]")
    return ("odd", "O", "ODD") if is_odd else status
"""


def outcomes(suite, *flags):
    """What the terminal counted: as pluggy has it called, and directly."""
    runs = (suite.pytester.runpytest, suite.pytester.runpytest_subprocess)
    given = ("--model=scripted:answers.jsonl", *flags)
    both = [run(*given) for run in runs]
    assert both[0].parseoutcomes() == both[1].parseoutcomes()
    return both[1].parseoutcomes()


def test_terminal_counts_documents_alike_however_it_is_told(suite):
    suite.task("quiz", doc_to_target="{{answer if id < 'q7' else 'another'}}")
    counted = outcomes(suite)
    assert counted == outcomes(suite, "-q") == outcomes(suite, "-v")
    assert counted == {"passed": 7, "wrong": 3}


def test_statuses_of_a_conftest_are_asked_of_each_document(suite):
    suite.pytester.makeconftest(STATUSES)
    assert outcomes(suite)["odd"] == 1
