"""The fast path of documents: reporting hooks are called as pluggy calls them, and
results are those of pytest's own protocol (``--evals-fast-path=off``)."""

import json
import xml.etree.ElementTree as ET

import pytest

pytestmark = pytest.mark.slow


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


def test_direct_hook_calls_reach_the_same_plugins_as_pluggy(suite):
    suite.pytester.makeconftest(LISTENER)
    by_pluggy = heard(suite)
    assert by_pluggy.count("start evals/quiz.yaml::quiz[q4]") == 1
    assert heard(suite, own_process=True) == by_pluggy


def test_a_wrapper_runs_around_each_report(suite):
    suite.pytester.makeconftest(LISTENER + WRAPPER)
    events = heard(suite, own_process=True)
    assert events == heard(suite)
    assert sum(line.startswith("before ") for line in events) >= 10


def test_a_plugin_registered_during_the_run_gets_later_reports(suite):
    suite.pytester.makeconftest(LISTENER + LATE)
    events = heard(suite, own_process=True)
    assert [line for line in events if line.startswith("late ")] == [
        f"late evals/quiz.yaml::quiz[q{i}]" for i in range(10)
    ]


LOGGING = """
import logging
import pytest

@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid):
    logging.getLogger("suite").warning("done %s", nodeid)
"""


def test_live_log_shows_the_time_of_each_record(suite):
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
    """The terminal's counters: as called by pluggy, and directly."""
    runs = (suite.pytester.runpytest, suite.pytester.runpytest_subprocess)
    given = ("--model=scripted:answers.jsonl", *flags)
    both = [run(*given) for run in runs]
    assert both[0].parseoutcomes() == both[1].parseoutcomes()
    return both[1].parseoutcomes()


def test_the_terminal_counts_are_equal_with_and_without_the_fast_path(suite):
    suite.task("quiz", doc_to_target="{{answer if id < 'q7' else 'another'}}")
    counted = outcomes(suite)
    assert counted == outcomes(suite, "-q") == outcomes(suite, "-v")
    assert counted == {"passed": 7, "wrong": 3}


def test_a_status_hook_of_a_conftest_is_called_for_each_document(suite):
    suite.pytester.makeconftest(STATUSES)
    assert outcomes(suite)["odd"] == 1


REPORTS = """
import json

import pytest

class Reports:
    def pytest_runtest_logreport(self, report):
        if report.when != "call":
            return
        shown = [report.nodeid, report.outcome, str(report.longrepr), report.location,
                 sorted(report.keywords), report.user_properties, report.sections]
        with open("reports.jsonl", "a") as file:
            print(json.dumps(shown), file=file)

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reports())

def pytest_evals_score(record, task):
    print("scoring", record.doc.id)
"""
CHANGES = ("date", "model_seconds", "total_evaluation_time_seconds", "options")


def run_with(suite, switch, *arguments):
    """Exit code, outcomes, reports, results, samples and JUnit cases of a run."""
    reports = suite.pytester.path / "reports.jsonl"
    reports.unlink(missing_ok=True)
    result = suite.pytester.runpytest_subprocess(
        "--model=scripted:answers.jsonl",
        f"--evals-fast-path={switch}",
        f"--evals-dir={switch}",
        "--evals-cache=off",
        "--junitxml=junit.xml",
        "--evals-junit=docs",
        *arguments,
    )
    folder = max((suite.pytester.path / switch / "runs").iterdir())
    results = json.loads((folder / "results.json").read_text())
    cases = ET.parse(suite.pytester.path / "junit.xml").iter("testcase")
    return {
        "exit": result.ret,
        "outcomes": result.parseoutcomes(),
        "reports": sorted(reports.read_text().splitlines()),
        "results": {k: v for k, v in results.items() if k not in CHANGES},
        "samples": sorted((folder / "samples_quiz.jsonl").read_text().splitlines()),
        "junit": sorted((one.get("name"), *[c.tag for c in one]) for one in cases),
    }


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-x",),
        pytest.param(("--maxfail=2", "-v"), marks=pytest.mark.slow),
        ("-n2",),
    ],
    ids=" ".join,
)
def test_results_are_those_of_pytests_own_protocol(suite, arguments):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.knows(wrong=[2], errors=[4, 6])
    suite.pytester.makeconftest(REPORTS)
    suite.pytester.makepyfile(test_plain="def test_plain(): pass")
    fast, ordinary = (run_with(suite, one, *arguments) for one in ("on", "off"))
    assert fast == ordinary
    documents = [json.loads(line) for line in fast["reports"] if "quiz[" in line]
    assert documents[1][-1] == [["Captured stdout call", "scoring q1\n"]]
    if arguments in ((), ("-n2",)):
        expected = {"passed": 9, "wrong": 1, "errors": 2}
        assert fast["outcomes"] == expected


def test_failed_documents_are_rerun_with_and_without_the_fast_path(suite):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.knows(errors=[4, 6])
    suite.pytester.makeconftest(REPORTS)
    runs = {}
    for switch in ("on", "off"):
        run_with(suite, switch)
        runs[switch] = run_with(suite, switch, "--lf")
    assert runs["on"] == runs["off"]
    assert runs["on"]["outcomes"]["errors"] == 2


def test_without_the_fast_path_setup_and_teardown_are_reported(suite):
    suite.pytester.makeconftest(LISTENER)
    run = suite.pytester.runpytest_subprocess
    assert run("--model=scripted:answers.jsonl", "--evals-fast-path=off").ret == 0
    notes = (suite.pytester.path / "heard.txt").read_text().splitlines()
    phases = [line.split()[2] for line in notes if line.startswith("report ")]
    assert phases == ["setup", "call", "teardown"] * 10


def test_a_value_other_than_on_or_off_is_a_usage_error(suite):
    result = suite.run("--evals-fast-path=no")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("ERROR: --evals-fast-path=no: expected on or off")
