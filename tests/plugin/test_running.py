"""The outcomes of documents, and of a session with failures."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

LAST_FIRST = """
import os
import time
import pytest
from pytest_evals import Response

class LastFirst:
    name = "last first"
    fingerprint = {"v": 1}

    def answer(self, requests):
        for position in reversed(range(1, len(requests))):
            yield position, Response(text="a0")
        open(f"ready-{os.getpid()}", "w").close()
        time.sleep(600)

@pytest.fixture(scope="session")
def eval_model():
    return LastFirst()
"""


def test_wrong_answers_pass_and_are_counted_separately(suite):
    suite.knows(wrong=[2, 5, 7])
    result = suite.run("evals")
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 7, "wrong": 3}


def test_verbose_names_each_wrong_document(suite):
    suite.knows(wrong=[2])
    result = suite.run("evals", "-v")
    result.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml::quiz[[]q1[]] PASSED *",
            "evals/quiz.yaml::quiz[[]q2[]] WRONG *",
        ]
    )


def test_strict_fails_wrong_documents_with_prompt_answer_and_target(suite):
    suite.knows(wrong=[2])
    result = suite.run("evals", "--evals-strict")
    assert result.ret == 1
    result.assert_outcomes(passed=9, failed=1)
    result.stdout.fnmatch_lines(
        [
            "the answer is wrong",
            "  prompt  quiz 2?",
            "  answer  nonsense",
            "  target  a2",
            "FAILED evals/quiz.yaml::quiz[[]q2[]] - the answer is wrong",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize("which", [0, 4, 9])
def test_a_document_without_response_is_an_error_and_others_are_scored(suite, which):
    """First, middle and last documents go through different protocols of pytest."""
    suite.knows(errors=[which])
    result = suite.run("evals")
    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 9, "errors": 1}
    result.stdout.fnmatch_lines(
        [f"ERROR evals/quiz.yaml::quiz[[]q{which}[]] - the server is down"]
    )
    (sample,) = [s for s in suite.samples() if s["id"] == f"q{which}"]
    assert sample["error"] == "the server is down"
    assert "exact_match" not in sample


def test_document_that_cannot_be_rendered_is_one_error(suite):
    suite.task("quiz", doc_to_text="{{ 10 // (question|length - 7 + loop_off) }}")
    suite.task("quiz", doc_to_text="{{question}} {{ 1 // (answer != 'a4')|int }}")
    rules = "".join(f'{{"regex": "quiz {i}", "text": "a{i}"}}\n' for i in range(10))
    (suite.pytester.path / "answers.jsonl").write_text(rules)
    result = suite.run("evals")
    assert result.parseoutcomes() == {"passed": 9, "errors": 1}
    result.stdout.fnmatch_lines(["evals/quiz.yaml:*doc_to_text*"])


def test_x_stops_at_the_first_error_but_not_at_wrong_answers(suite):
    suite.knows(wrong=[0, 1], errors=[4])
    result = suite.run("evals", "-x")
    assert result.parseoutcomes() == {"passed": 2, "wrong": 2, "errors": 1}
    result.stdout.fnmatch_lines(["partial run: stopping after 1 failures"])


def test_x_stops_between_documents_that_share_a_call_of_the_protocol(suite):
    suite.knows(errors=[4])
    result = suite.run("evals", "-x")
    assert result.parseoutcomes() == {"passed": 4, "errors": 1}
    assert [row["id"] for row in suite.samples()] == ["q0", "q1", "q2", "q3", "q4"]


@pytest.mark.parametrize("hook", ["pytest_runtest_protocol", "pytest_runtestloop"])
def test_a_wrapper_of_the_protocol_is_called_for_every_document(suite, hook):
    """As pytest-timeout and IDEs do; an existing event loop is used as well."""
    suite.pytester.makeconftest(
        f"""
        import pytest

        seen = []

        if {hook!r} == "pytest_runtest_protocol":

            @pytest.hookimpl(wrapper=True)
            def pytest_runtest_protocol(item):
                seen.append(item.name)
                return (yield)

        else:

            @pytest.hookimpl(tryfirst=True)
            def pytest_runtestloop(session):
                for item, nextitem in zip(session.items, [*session.items[1:], None]):
                    seen.append(item.name)
                    session.config.hook.pytest_runtest_protocol(
                        item=item, nextitem=nextitem
                    )
                return True

        def pytest_unconfigure():
            print("seen", *seen)
        """
    )
    result = suite.run("evals", "-s")
    assert result.parseoutcomes() == {"passed": 10}
    names = " ".join(f"quiz[q{i}]" for i in range(10))
    assert f"seen {names}" in result.stdout.str()


@pytest.mark.parametrize("whole_file", [False, True])
def test_skip_markers_apply_to_single_documents(suite, whole_file):
    suite.task("quiz", gates=["exact_match >= 0.5"])
    suite.knows(errors=[7])
    marked = '"quiz.yaml" in item.nodeid' if whole_file else '"q3]" in item.nodeid'
    suite.pytester.makeconftest(f"""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if {marked} and "[" in item.nodeid:
                    node = item.parent if {whole_file} else item
                    node.add_marker(pytest.mark.skip(reason="known to hang"))
                elif "q7]" in item.nodeid:
                    item.add_marker(pytest.mark.xfail(reason="known to fail"))
    """)
    counts = suite.run("evals").parseoutcomes()
    if whole_file:
        assert counts == {"skipped": 11}  # the gate is in the same file
    else:
        # The gate lacks a document, so it is skipped too.
        assert counts == {"passed": 8, "skipped": 2, "xfailed": 1}


def test_warning_of_a_scorer_is_shown(suite):
    suite.pytester.makeconftest(
        """
        import warnings

        def pytest_evals_score(record, task):
            if record.doc.id == "q5":
                warnings.warn("q5 is odd")
        """
    )
    result = suite.run("evals", "-W", "default")
    assert result.parseoutcomes() == {"passed": 10, "warnings": 1}
    result.stdout.fnmatch_lines(["*UserWarning: q5 is odd"])


def test_lf_reruns_the_document_that_failed(suite):
    suite.knows(errors=[4])
    suite.run("evals")
    suite.knows()
    result = suite.run("evals", "--lf", "-v")
    result.stdout.fnmatch_lines(["evals/quiz.yaml::quiz[[]q4[]] PASSED *"])
    assert result.parseoutcomes()["passed"] == 1


@pytest.mark.slow
def test_evals_run_without_pytests_optional_plugins_and_with_plain_tests(suite):
    suite.pytester.makepyfile(test_plain="def test_plain(): pass")
    for arguments in (
        ("-p", "no:terminal"),
        ("-p", "no:cacheprovider"),
        ("-s",),
        ("-p", "no:faulthandler"),
        ("-o", "faulthandler_timeout=60"),
        ("-p", "no:logging", "-p", "no:warnings"),
        ("-W", "error"),
    ):
        assert suite.run(*arguments).ret == 0


def test_setup_plan_sends_no_requests(suite):
    result = suite.run("evals", "--setup-plan", model="scripted:break")
    assert result.ret == 0


def test_a_failing_model_is_one_error(suite):
    result = suite.run("evals", model="scripted:break")
    assert result.ret == 1
    outcomes = result.parseoutcomes()
    assert outcomes["skipped"] == 9
    assert outcomes.get("failed", 0) + outcomes.get("error", 0) == 1


RAISES = """
import pytest

class Model:
    name = "broken"

    def answer(self, requests):
        {raises}
        yield

@pytest.fixture(scope="session")
def eval_model():
    return Model()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "raises",
    [
        "raise ValueError('boom')",
        "raise SystemExit(0)",
        "raise StopIteration",
        "next(iter(()))",
        "raise RuntimeError('x') from ValueError('y')",
    ],
)
@pytest.mark.parametrize("end", ["yield", "return []"])
def test_a_model_that_raises_is_one_error_that_shows_its_own_code_only(
    suite, raises, end
):
    source = RAISES.format(raises=raises).replace("yield", end)
    suite.pytester.makeconftest(source)
    result = suite.run("evals", "-rs", model=None)
    assert result.ret == 1
    assert result.parseoutcomes() == {"failed": 1, "skipped": 9}
    result.stdout.fnmatch_lines([f">*{raises}", "E  *", "conftest.py:7: *"])
    for place in ("*pytest_evals/*", "*_pytest/*", "*pluggy/*"):
        result.stdout.no_fnmatch_line(place)
    whole = suite.run("evals", "--full-trace", model=None)
    whole.stdout.fnmatch_lines(["*pytest_evals/run/batches.py:*"])


def test_a_fixture_that_raises_shows_its_own_code_only(suite):
    """Although its conftest.py is above the rootdir, which is the folder of the
    suite."""
    (suite.pytester.path / "tox.ini").unlink(missing_ok=True)
    suite.pytester.makeconftest(
        "import pytest\n\n"
        "@pytest.fixture(scope='session')\n"
        "def eval_model():\n"
        "    return Modle()\n"
    )
    result = suite.run("evals", model=None)
    assert result.parseoutcomes()["errors"] == 1
    result.stdout.fnmatch_lines([">*return Modle()", "*conftest.py:5: NameError"])
    for place in ("*pytest_evals/*", "*_pytest/*", "*pluggy/*"):
        result.stdout.no_fnmatch_line(place)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--model=scripted", "*"),
        ("--model=hf:./no/such/folder", "*no/such/folder*"),
        (
            "--model=hg:gpt2",
            "*unknown kind of model 'hg'*known: encoder, hf, openai, python, *",
        ),
        ("--model=hf:gpt2,dtpye=float16", "*dtpye*did you mean 'dtype'*"),
        ("--evals-limit=0", "ERROR: --evals-limit=0: expected a number of *"),
        ("--evals-limit=-3", "ERROR: --evals-limit=-3: expected a number of *"),
        ("--evals-limit=many", "ERROR: --evals-limit=many: expected a number of *"),
        ("--evals-num-fewshot=x", "*--evals-num-fewshot=x: expected a whole number*"),
        ("--evals-seed=1,2,3", "*--evals-seed=1,2,3: expected a whole number*"),
        ("--evals-gen-kwargs=hot", "*--evals-gen-kwargs=hot: 'hot' is not NAME=VALUE"),
        ("--evals-gen-kwargs=temprature=1", "*--evals-gen-kwargs: *'temperature'?*"),
        ("--evals-gen-kwargs=max_gen_toks=abc", "*--evals-gen-kwargs: *max_gen_toks*"),
        ("--evals-limit=1.5", "ERROR: --evals-limit=1.5: expected a number of *"),
        ("--evals-gate=acc > lots", "*acc > lots*"),
        ("--evals-gate=ac >= 0.5", "*unknown metric 'ac'*"),
        ("--evals-gate=quis/exact_match >= 0", "*unknown task 'quis'*'quiz'?"),
    ],
)
def test_an_invalid_option_is_a_usage_error_before_a_model_is_loaded(
    suite, option, message
):
    result = suite.run("evals", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert not (suite.pytester.path / ".evals").exists()


def test_a_session_without_evals_has_no_output_of_the_plugin(pytester):
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest("--model=scripted:echo")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*evals:*")
    result.stdout.no_fnmatch_line("=* evals =*")


def test_a_conftests_model_option_takes_precedence_over_the_alias(suite):
    suite.pytester.makeconftest(
        "def pytest_addoption(parser): parser.addoption('--model', default='theirs')"
    )
    suite.pytester.makepyfile(
        test_theirs="def test_it(pytestconfig): "
        "assert pytestconfig.getoption('--model') == 'x'"
    )
    result = suite.run("--model=x", "--evals-model=scripted:answers.jsonl", model=None)
    assert result.parseoutcomes() == {"passed": 11}


THEIRS = "def pytest_addoption(parser): parser.addoption('--model', default='theirs')"
THEIR_TEST = """
def test_it(pytestconfig): assert pytestconfig.getoption('--model') == '{}'
"""


@pytest.mark.slow
@pytest.mark.parametrize("args", [(".",), (), ("-n2",)])
def test_a_conftest_below_the_rootdir_may_define_the_model_option(args, pytester):
    pytester.makeini("[pytest]")
    pytester.path.joinpath("sub").mkdir()
    pytester.makepyfile(
        **{
            "sub/conftest": THEIRS,
            "sub/test_theirs": THEIR_TEST.format("theirs"),
        }
    )
    pytester.runpytest_subprocess(*args).assert_outcomes(passed=1)


def test_a_conftest_found_after_the_command_line_was_read_does_not_take_the_alias(
    suite,
):
    suite.pytester.path.joinpath("sub").mkdir()
    suite.pytester.makepyfile(
        **{
            "sub/conftest": THEIRS,
            "sub/test_theirs": THEIR_TEST.format("theirs"),
        }
    )
    assert suite.run().parseoutcomes() == {"passed": 11}


@pytest.mark.slow
@pytest.mark.parametrize("loaded", ["-p", "PYTEST_PLUGINS", "configure"])
def test_a_plugin_may_define_the_model_option(loaded, pytester, monkeypatch):
    """Before our plugin is loaded, after it, or once the command line is read."""
    pytester.makepyfile(their_plugin=THEIRS, test_theirs=THEIR_TEST.format("theirs"))
    if loaded == "PYTEST_PLUGINS":
        monkeypatch.setenv("PYTEST_PLUGINS", "their_plugin")
    if loaded == "configure":
        pytester.makeconftest(
            "def pytest_configure(config): "
            "config.pluginmanager.import_plugin('their_plugin')"
        )
    args = ["-p", "their_plugin"] if loaded == "-p" else []
    pytester.syspathinsert()
    pytester.runpytest_subprocess(*args).assert_outcomes(passed=1)


@pytest.mark.parametrize("place", ["PYTEST_ADDOPTS", "addopts", "file", "words"])
def test_the_model_alias_is_read_wherever_options_are_given(place, suite, monkeypatch):
    spec, args = "--model=scripted:answers.jsonl", []
    if place == "PYTEST_ADDOPTS":
        monkeypatch.setenv("PYTEST_ADDOPTS", spec)
    elif place == "addopts":
        suite.pytester.makeini(f"[pytest]\naddopts = {spec}")
    elif place == "file":
        suite.pytester.path.joinpath("options.txt").write_text(f"{spec}\n-q\n")
        args = ["@options.txt"]
    else:
        args = spec.split("=")
    suite.run("evals", *args, model=None).assert_outcomes(passed=10)


def test_the_collector_of_another_plugin_for_packages_is_kept(pytester):
    pytester.makeconftest("""
        import pytest

        class Theirs(pytest.Package):
            pass

        def pytest_collect_directory(path, parent):
            if path.name == "pkg":
                return Theirs.from_parent(parent, path=path)
        """)
    pytester.path.joinpath("pkg").mkdir()
    pytester.makepyfile(**{"pkg/__init__": "", "pkg/test_a": "def test_a(): pass"})
    pytester.runpytest("--collect-only").stdout.fnmatch_lines(["*<Theirs pkg>*"])


def test_ini_options_are_read_and_the_command_line_takes_precedence(suite):
    suite.pytester.makeini(
        "[pytest]\nevals_model = scripted:break\nevals_limit = 3\nevals_strict = true\n"
    )
    suite.knows(wrong=[1])
    result = suite.run("evals")
    result.assert_outcomes(passed=2, failed=1)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_responses(sent, suite):
    """Ctrl-C, and the signals of CI systems: scored documents are on disk, the run is
    marked as partial, and no gate passes."""
    suite.task("quiz", gates=["exact_match > 0"])
    suite.stops_at(3)
    process = suite.start("evals")
    process.send_signal(sent)
    output = process.communicate()[0]
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "partial run: interrupted" in output
    assert [s["id"] for s in suite.samples()] == ["q0", "q1", "q2"]
    assert suite.results()["gates"] == []


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("-q",), ("-n2",)])
def test_an_interrupted_run_shows_its_progress_and_how_to_resume(suite, arguments):
    """A worker's model waits at the fourth of its five documents, and the number of
    reports received by then depends on chance."""
    n = 2 if arguments == ("-n2",) else 1
    suite.stops_at(3)
    conftest = suite.pytester.path / "conftest.py"
    text = conftest.read_text().replace('"stuck"', '"stuck"; fingerprint = {"v": 1}')
    conftest.write_text(text)
    process = suite.start("evals", "--evals-cache=refresh", *arguments, models=n)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate()[0]
    message = r"interrupted: (\d+) of 10 documents scored; (\d+) responses stored\n"
    n_scored, n_stored = map(int, re.search(message, output).groups())
    assert (1 <= n_scored <= 3 * n, n_stored) == (True, 3 * n)
    again = " ".join(["pytest", "evals", *arguments, "--evals-cache=use"])
    assert f"to continue (stored responses are reused): {again}\n" in output
    left = 10 - n_scored
    assert (f", {left} not scored\n" in output) == (arguments != ("-q",))
    assert f" {left} not scored in " in output


@pytest.mark.slow
def test_an_interrupted_run_counts_unscored_responses(suite):
    """The model returns the other documents before the first."""
    suite.pytester.makeconftest(LAST_FIRST)
    process = suite.start("evals")
    process.send_signal(signal.SIGINT)
    output = process.communicate()[0]
    message = (
        "interrupted: 0 of 10 documents scored, 9 more answered; 9 responses stored"
    )
    assert message in output
    assert "documents: 10 not scored\n" in output
    assert "= 10 not scored in " in output
    found = suite.run("evals", "--evals-cache=only", model=None)
    assert found.parseoutcomes()["errors"] == 1


@pytest.mark.slow
def test_an_interrupted_run_without_store_reports_that_nothing_is_stored(suite):
    suite.stops_at(3)
    process = suite.start("evals")
    process.send_signal(signal.SIGINT)
    output = process.communicate()[0]
    assert "interrupted: 3 of 10 documents scored; 0 responses stored\n" in output
    assert "to run again (no responses are stored): " in output


def test_a_failure_to_write_results_is_reported_and_the_table_is_shown(suite):
    suite.replaces_by_a_file("taken")
    result = suite.run("evals", "--evals-dir=taken")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["quiz *exact_match * 1.000*", "cannot make the folder*taken*", "*--evals-dir"]
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "the fixture eval_model gave None, which is not a model"),
        (
            "return Odd",
            "the fixture eval_model gave <class 'conftest.Odd'> (type), which "
            "is not a model",
        ),
        ("return Odd()", "odd: answer() gave 'text' (str)"),
    ],
)
def test_an_object_that_is_not_a_model_is_one_error(suite, body, message):
    suite.pytester.makeconftest(
        f"""
        import pytest

        class Odd:
            name = "odd"

            def answer(self, requests):
                yield "text"

        @pytest.fixture(scope="session")
        def eval_model():
            {body}
        """
    )
    result = suite.run("evals", model=None)
    assert result.ret == 1
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_task_that_runs_generated_code_needs_the_option(suite):
    suite.task("quiz", unsafe_code=True)
    refused = suite.run("evals")
    refused.stdout.fnmatch_lines(
        ["evals/quiz.yaml:*: unsafe_code: this task executes model output"]
    )
    refused.assert_outcomes(errors=1)
    suite.run("--evals-allow-unsafe-code", "evals").assert_outcomes(passed=10)
    allowed = suite.run("-o", "evals_allow_unsafe_code=true", "evals")
    allowed.assert_outcomes(passed=10)


@pytest.mark.slow
def test_metadata_and_model_arguments_are_passed_to_custom_datasets(
    suite,
):
    """As lm-eval's ruler tasks need it: length of the context, and the tokenizer."""
    (suite.evals / "made.py").write_text(
        "import datasets\n"
        "def rows(n, model, **more):\n"
        "    row = {'question': f'quiz {n}?', 'answer': f'a{n}', 'more': model}\n"
        "    return {'test': datasets.Dataset.from_list([row])}\n"
    )
    path = suite.task("quiz", metadata={"n": 1, "num_fewshot": 7})
    text = path.read_text().replace(
        "dataset_path: json", "custom_dataset: !function made.rows"
    )
    lines = text.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith("dataset_kwargs"))
    path.write_text("".join(lines[:start] + lines[start + 3 :]))
    for given in ("n=3", '{"n": 3}'):
        result = suite.run("evals", f"--evals-metadata={given}")
        assert result.parseoutcomes() == {"passed": 1}
        result.stdout.fnmatch_lines(["quiz *1 *7 *exact_match *1.000*"])
    row = max(suite.pytester.path.glob(".evals/runs/*/samples_quiz.jsonl")).read_text()
    assert json.loads(row)["doc"]["more"] == "answers.jsonl"


@pytest.mark.parametrize(("n", "has_stderr"), [("0", False), ("1000", True)])
def test_bootstrap_iters_is_applied_and_recorded(suite, n, has_stderr):
    suite.task("quiz", metric_list=[{"metric": "exact_match", "aggregation": "median"}])
    suite.knows(wrong=[1, 2, 3])
    path = suite.pytester.path / "r.json"
    run = suite.run(f"--evals-bootstrap-iters={n}", f"--evals-json={path}")
    assert run.ret == 0
    found = json.loads(path.read_text())
    assert found["config"]["bootstrap_iters"] == int(n)
    stderr = found["results"]["quiz"]["exact_match_stderr,none"]
    assert isinstance(stderr, float) == has_stderr
    is_noted = "are of 1,000 resamples" in run.stdout.str()
    assert is_noted == has_stderr


@pytest.mark.slow
def test_objects_of_a_run_are_not_frozen_at_exit_where_triton_would_report_leaks(suite):
    suite.pytester.makeconftest("""
        import atexit
        import gc
        import sys
        import types

        sys.modules.setdefault("triton", types.ModuleType("triton"))

        class Late(list):
            pass

        late = []

        def pytest_runtest_teardown():
            late.append(Late())

        @atexit.register
        def report():
            tracked = sum(isinstance(one, Late) for one in gc.get_objects())
            print(f"{len(late)} late, {tracked} tracked")
    """)
    suite.knows()
    result = suite.pytester.runpytest_subprocess("--model=scripted:answers.jsonl")
    assert re.search(r"^([1-9]\d*) late, \1 tracked", result.stdout.str(), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("imported_before", [False, True])
def test_objects_of_a_models_libraries_are_left_out_of_garbage_collections(
    pytester, imported_before
):
    """If torch is already imported, weights may exist too, which must stay
    collectable."""
    script = pytester.makepyfile(f"""
        import gc
        import sys
        import types

        from pytest_evals.plugin.execution.fast_path.protocol import (
            ReducedGarbageCollection,
        )

        if {imported_before}:
            sys.modules["torch"] = types.ModuleType("torch")
        collections = ReducedGarbageCollection()
        with collections.importing():
            import xml.dom.minidom
            print("during", gc.isenabled())
        print("after", gc.isenabled(), gc.get_freeze_count() > 0)
        sys.modules["triton"] = types.ModuleType("triton")
        collections.end()
        print("triton", gc.get_freeze_count())
    """)
    lines = pytester.runpython(script).stdout.lines
    during, after = ("True", "False") if imported_before else ("False", "True")
    assert lines == [f"during {during}", f"after True {after}", "triton 0"]


@pytest.mark.nightly
def test_a_models_libraries_are_imported_as_the_fast_path_does(suite, tiny_model_path):
    suite.pytester.makeconftest("""
        import gc

        def pytest_runtest_teardown():
            print("frozen", gc.get_freeze_count() > 100_000)
    """)
    shown = [
        suite.pytester.runpytest_subprocess(
            f"--model=hf:{tiny_model_path}", f"--evals-fast-path={switch}", "-s", "-q"
        ).stdout.str()
        for switch in ("on", "off")
    ]
    assert "frozen True" in shown[0] and "frozen False" in shown[1]
    assert "frozen False" not in shown[0] and "frozen True" not in shown[1]
