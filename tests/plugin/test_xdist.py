"""The same suite with several workers: same numbers, no losses."""

from __future__ import annotations

import json
import os
import shutil
import signal
from xml.etree import ElementTree

import pytest

from pytest_evals.plugin.settings.process import (
    VARIABLES,
    _amd_devices,
    visible_devices,
)

VARYING = ("date", "total_evaluation_time_seconds", "model_seconds", "options")


@pytest.fixture
def two_tasks(suite):
    suite.task("quiz", gates=["exact_match >= 0.5", {"must_pass": ["q9"]}])
    suite.task("zoo", num_fewshot=2, fewshot_split="test", gates=["exact_match >= 0.9"])
    suite.knows(wrong=[1, 4], tasks=["quiz", "zoo"])
    return suite


def everything(suite, *arguments):
    """Outcomes, results and samples of a run."""
    shutil.rmtree(suite.pytester.path / ".evals", ignore_errors=True)
    result = suite.run("evals", *arguments)
    results = {k: v for k, v in suite.results().items() if k not in VARYING}
    samples = {task: suite.samples(task) for task in ("quiz", "zoo")}
    return result.ret, result.parseoutcomes(), results, samples


@pytest.mark.slow
def test_results_samples_and_outcomes_are_the_same_for_any_number_of_workers(two_tasks):
    alone = everything(two_tasks)
    assert alone[0] == 1
    assert alone[1] == {"passed": 18, "wrong": 4, "failed": 1}
    for n in ("1", "3"):
        assert everything(two_tasks, "-n", n) == alone


@pytest.mark.slow
def test_gates_are_judged_once_and_fail_as_without_workers(two_tasks):
    result = two_tasks.run("evals", "-n2", "-v")
    lines = [line for line in result.outlines if "zoo::exact_match" in line]
    assert len([line for line in lines if "FAILED" in line and "evals/" in line]) >= 1
    result.stdout.fnmatch_lines(
        [
            "*zoo: exact_match >= 0.9*",
            "exact_match 0.800 is not >= 0.9 (8 of 10)*",
            "      answer  nonsense",
            "FAILED evals/zoo.yaml::zoo::exact_match - exact_match 0.800 is not *",
        ]
    )


@pytest.mark.slow
def test_documents_that_errored_on_a_worker_are_errors(suite):
    suite.task("quiz", gates=["exact_match >= 0.95"])
    suite.knows(errors=[0, 7])
    result = suite.run("evals", "-n2")
    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 8, "errors": 2, "failed": 1}
    result.stdout.fnmatch_lines(["INVALID evals/quiz.yaml::quiz::exact_match *"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "dist",
    [
        "load",
        pytest.param("loadfile", marks=pytest.mark.slow),
        pytest.param("worksteal", marks=pytest.mark.slow),
    ],
)
def test_xdists_distribution_modes_work_with_plain_tests(two_tasks, dist):
    two_tasks.pytester.makepyfile(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(5))\n"
        "def test_plain(n): pass\n"
    )
    result = two_tasks.run("-n2", f"--dist={dist}")
    assert result.parseoutcomes() == {"passed": 23, "wrong": 4, "failed": 1}


@pytest.mark.slow
def test_dist_each_is_refused(two_tasks):
    result = two_tasks.run("evals", "--tx=2*popen", "--dist=each")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--dist=each runs every document on every worker*"])


@pytest.mark.slow
def test_a_session_of_plain_tests_uses_xdists_scheduler(pytester):
    pytester.makepyfile(
        "import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_it(n): pass"
    )
    result = pytester.runpytest("-n2")
    result.assert_outcomes(passed=9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "option", ["--evals-tasks=quis", "--evals-limit=none", "--model=hf:./no/where"]
)
def test_an_invalid_option_is_a_usage_error_with_workers(suite, option):
    result = suite.run("evals", "-n2", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.slow
def test_an_invalid_file_is_one_collection_error_with_workers(suite):
    suite.task("zoo", output_type="multiple_choise")
    result = suite.run("evals", "-n2")
    assert result.ret != 0
    assert result.stdout.str().count("ERROR collecting evals/zoo.yaml") == 1
    result.stdout.fnmatch_lines(["*did you mean 'multiple_choice'?"])


@pytest.mark.slow
@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGINT"])
def test_a_session_that_is_stopped_leaves_no_temporary_files(
    suite, monkeypatch, tmp_path, signal_name
):
    """Those of a killed one are in pytest's own folder, which later sessions clean."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    suite.pytester.makeconftest(
        f"""
        import os, signal
        import pytest

        def pytest_configure(config):
            if not hasattr(config, "workerinput"):
                os.environ["CONTROLLER"] = str(os.getpid())

        class Stops:
            name = "stops"

            def answer(self, requests):
                os.kill(int(os.environ["CONTROLLER"]), signal.{signal_name})
                return ()

        @pytest.fixture(scope="session")
        def eval_model():
            return Stops()
        """
    )
    result = suite.pytester.runpytest_subprocess("evals", "-n1")
    expected = {"SIGKILL": -signal.SIGKILL, "SIGINT": pytest.ExitCode.INTERRUPTED}
    assert result.ret == expected[signal_name]
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_a_document_that_crashes_its_worker_is_the_only_error(suite):
    """First its shard runs again, then one document at a time, which identifies it."""
    suite.task("quiz", gates=["exact_match > 0"])
    suite.pytester.makeconftest(
        """
        import os
        import pytest
        from pytest_evals import Response

        class Fragile:
            name = "fragile"

            def answer(self, requests):
                for position, request in enumerate(requests):
                    if request.prompt == "quiz 7?":
                        os._exit(3)
                    number = request.prompt.split()[1].rstrip("?")
                    yield position, Response(text=f"a{number}")

        @pytest.fixture(scope="session")
        def eval_model():
            return Fragile()
        """
    )
    result = suite.run("evals", "-n2", model=None)
    assert result.ret == 1
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"]) == (10, 1)
    result.stdout.fnmatch_lines(["*crashed while running*quiz[[]q7[]]*"])
    errors = {s["id"]: s["error"] for s in suite.samples()}
    assert errors.pop("q7") == "its worker crashed each time it ran"
    assert len(errors) == 9
    assert not any(errors.values())
    assert suite.results()["gates"][0]["outcome"] == "passed"


@pytest.mark.slow
def test_documents_that_no_worker_could_run_are_errors(suite):
    suite.pytester.makeconftest(
        """
        import os
        import pytest

        class Broken:
            name = "broken"

            def answer(self, requests):
                os._exit(3)

        @pytest.fixture(scope="session")
        def eval_model():
            return Broken()
        """
    )
    result = suite.run("evals", "-n2", "--max-worker-restart=0", model=None)
    assert result.ret == 1
    assert result.parseoutcomes()["errors"] == 10


@pytest.mark.slow
def test_x_stops_all_workers(suite):
    suite.pytester.makeconftest(
        """
        import time
        import pytest
        from pytest_evals import Response

        class Slow:
            name = "slow"

            def answer(self, requests):
                for position, request in enumerate(requests):
                    time.sleep(0.15)
                    error = "bad" if request.prompt == "quiz 0?" else ""
                    yield position, Response(text="x", error=error)

        @pytest.fixture(scope="session")
        def eval_model():
            return Slow()
        """
    )
    lines = (suite.evals / "quiz.jsonl").read_text() * 8
    (suite.evals / "quiz.jsonl").write_text(lines)
    result = suite.run("evals", "-n2", "-x", model=None)
    outcomes = result.parseoutcomes()
    assert outcomes["errors"] >= 1
    assert outcomes.get("wrong", 0) < 40
    assert result.ret != 0


@pytest.mark.slow
def test_hooks_are_called_with_prompts_and_answers_of_workers(suite):
    """Additions of a hook do not depend on the number of workers."""
    suite.pytester.makeconftest(
        """
        def pytest_evals_metrics(task, records):
            return {
                "answer": sum(len(r.responses[0].text) for r in records),
                "prompt": sum(len(r.requests[0].prompt) for r in records),
            }
        """
    )
    suite.run("evals", "-n2")
    found = suite.results()["results"]["quiz"]
    assert (found["answer,none"], found["prompt,none"]) == (20, 70)


@pytest.mark.slow
def test_n_auto_starts_one_worker_for_each_device_or_one(suite, monkeypatch):
    for visible, own, n in (("", "", 1), ("0,1", "", 2), ("", "2", 2)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", own)
        result = suite.run("evals", "-nauto")
        result.stdout.fnmatch_lines([f"created: {n}/{n} worker*"])
        assert ("-n auto sees no GPU" in result.stdout.str()) == (n == 1)
        result.assert_outcomes(passed=10)


SMI = """#!/bin/sh
cat <<END
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736)
  MIG 3g.20gb     Device  1: (UUID: MIG-a28ad590)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-8b1c2d3e)
END
"""
WHERE = """
import json
import os

import pytest

NAMES = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"

def pytest_sessionstart(session):
    worker = getattr(session.config, "workerinput", {}).get("workerid")
    if worker:
        own = {name: os.environ[name] for name in NAMES if name in os.environ}
        with open(f"{worker}.json", "w") as stream:
            json.dump(own, stream)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "names"),
    [
        ("HIP_VISIBLE_DEVICES", ["2", "3"]),
        ("ZE_AFFINITY_MASK", ["0.0", "0.1"]),
        ("CUDA_VISIBLE_DEVICES", ["MIG-c7384736", "MIG-a28ad590", "1"]),
    ],
)
def test_each_worker_gets_a_device_by_its_vendors_variable(
    suite, monkeypatch, variable, names
):
    """AMD's and Intel's variables select devices; MIG instances, of which a process can
    use one, are in the list of nvidia-smi."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    if variable == "CUDA_VISIBLE_DEVICES":
        program = suite.pytester.path / "bin" / "nvidia-smi"
        program.parent.mkdir()
        program.write_text(SMI)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    else:
        monkeypatch.setenv(variable, ",".join(names))
    suite.pytester.makeconftest(WHERE)
    suite.run("evals", "-nauto").assert_outcomes(passed=10)
    found = [
        json.loads((suite.pytester.path / f"gw{i}.json").read_text())
        for i in range(len(names))
    ]
    assert found == [{variable: name} for name in names]


def test_amd_devices_are_those_with_simd_units(tmp_path, monkeypatch):
    """Linux' amdkfd lists processors too, with 0 of them."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for i, n_simds in enumerate((0, 440, 440)):
        (tmp_path / str(i)).mkdir()
        text = f"cpu_cores_count {64 * (n_simds == 0)}\nsimd_count {n_simds}\n"
        (tmp_path / str(i) / "properties").write_text(text)
    monkeypatch.setenv("PATH", "")  # without nvidia-smi
    monkeypatch.setattr(_amd_devices, "__defaults__", (tmp_path,))
    assert visible_devices() == (["0", "1"], "HIP_VISIBLE_DEVICES")


MARKED = """
import pytest

MARKS = {
    "red": pytest.mark.xfail(reason="known"),
    "green": pytest.mark.xfail(reason="soft"),
    "strict": pytest.mark.xfail(reason="hard", strict=True),
    "left": pytest.mark.skip(reason="later"),
    "never": pytest.mark.xfail(reason="no", run=False),
    "other": pytest.mark.xfail(reason="no such error", raises=ValueError),
    "group": pytest.mark.xfail(raises=pytest.RaisesGroup(ValueError)),
    "any": pytest.mark.xfail(raises=pytest.RaisesExc(Exception)),
    "unclear": pytest.mark.skipif("nonsense +", reason="no Python"),
}

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in MARKS:
            item.add_marker(MARKS[item.name])
"""


@pytest.mark.slow
def test_markers_of_gates_mean_the_same_with_workers_and_without(suite):
    """Without workers pytest itself handles them."""
    suite.knows(wrong=[1])
    bars = {"red": 1, "green": 0.1, "strict": 0.1, "left": 1, "never": 1, "other": 1}
    bars |= {"group": 1, "any": 1, "unclear": 0.1}
    suite.task(
        "quiz",
        gates=[{"id": i, "metric": "exact_match", "min": n} for i, n in bars.items()],
    )
    suite.pytester.makeconftest(MARKED)
    found = {}
    for n in ("0", "2"):
        result = suite.run("evals", f"-n{n}", f"--junitxml={n}.xml")
        cases = ElementTree.parse(suite.pytester.path / f"{n}.xml").iter("testcase")
        gates = {
            case.get("name"): [
                (one.tag, one.get("type")) for one in case if one.tag != "properties"
            ]
            for case in cases
            if case.get("name") in bars
        }
        found[n] = (result.ret, result.parseoutcomes(), gates)
    assert found["0"] == found["2"]
    expected = {"passed": 9, "wrong": 1, "failed": 3, "skipped": 1, "errors": 1}
    expected |= {"xfailed": 3, "xpassed": 1}
    assert found["2"][1] == expected


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupt_of_all_workers_is_not_reported_as_a_crash(sent, suite):
    suite.stops_at(2)
    process = suite.start("-n2", "evals", models=2)
    os.killpg(process.pid, sent)
    output = process.communicate()[0]
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "partial run: interrupted" in output
    assert "crashed" not in output


@pytest.mark.slow
def test_groups_without_gates_are_sent_to_a_controller_without_shared_folder(suite):
    """As with workers on another machine: only data that xdist transfers."""
    suite.task("quiz")
    suite.task("art")
    suite.group("bag", task=["quiz", "art"])
    suite.knows(wrong=[1], tasks=["quiz", "art"])
    suite.pytester.makeconftest(
        "import tempfile, os\n"
        "def pytest_configure(config):\n"
        "    if hasattr(config, 'workerinput'):\n"
        "        settings = config.workerinput['evals']\n"
        "        settings['stop'] = '/nowhere/' + os.path.basename(settings['stop'])\n"
    )
    for arguments in (["evals"], ["evals", "--evals-tasks=bag"]):
        found = {}
        for n in ("0", "2"):
            shutil.rmtree(suite.pytester.path / ".evals", ignore_errors=True)
            result = suite.run(*arguments, f"-n{n}")
            assert result.parseoutcomes() == {"passed": 18, "wrong": 2}
            results = suite.results()
            found[n] = [results["groups"], list(results["results"])]
        assert found["0"] == found["2"]
        assert list(found["2"][0]) == ["bag"]


@pytest.mark.slow
def test_warnings_of_workers_are_merged_and_shown_once(suite):
    """Document 0 has one answer, some of both shards have a list, which is flagged."""
    rows = [
        {"id": f"q{i}", "question": f"quiz {i}?", "answer": f"a{i}"} for i in range(10)
    ]
    suite.task(
        "quiz",
        doc_to_target=f"{{{{[answer] if id in {['q2', 'q7', 'q9']} else answer}}}}",
    )
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (suite.evals / "quiz.jsonl").write_text(lines)

    def warned(*arguments):
        lines = suite.run("evals", *arguments).outlines
        return [line for line in lines if "doc_to_target returns" in line]

    alone = warned()
    assert alone[0].endswith("(3 documents, first document q2)")
    assert warned("-n2") == alone


@pytest.mark.slow
def test_a_group_with_a_broken_task_is_one_error_with_workers(suite):
    """Its own tasks are collected, then one has unreadable rows."""
    suite.task("other")
    (suite.evals / "other.jsonl").write_text('"no object"\n')
    inner = {"group": "seen", "task": ["other"], "aggregate_metric_list": []}
    own = {"task": "quiz", "task_alias": "again", "num_fewshot": 0}
    suite.group("all", task=["quiz", inner, own])
    result = suite.pytester.runpytest("evals", "-n2", "--model=scripted:first")
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.TESTS_FAILED)
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    assert "each row must be a JSON object" in result.stdout.str() + (
        result.stderr.str()
    )
