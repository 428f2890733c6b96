"""A model that cannot be loaded is a usage error before the first document, if a
response is needed that is not stored."""

from __future__ import annotations

import os
import shutil

import pytest

from pytest_evals import ModelError, OptionError, evaluate

WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
KEYLESS = "openai:gpt-4o,api_key_env=EVALS_NO_SUCH_KEY"
OVERRIDE = """
import pytest
from pytest_evals import Response

class Own:
    name = "own"

    def answer(self, requests):
        for i, request in enumerate(requests):
            yield i, Response(text="a0")

@pytest.fixture(scope="session")
def {fixture}():
    return Own()
"""


def check_refused(suite, result, message):
    """One message, and no output of a run."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [*result.outlines, *result.errlines]
    assert [line for line in lines if line.startswith("ERROR")] == [f"ERROR: {message}"]
    text = "\n".join(lines)
    assert "= evals =" not in text
    assert "Traceback" not in text
    assert "crashed" not in text
    assert not list(suite.pytester.path.glob(".evals/runs/*"))


@WORKERS
@pytest.mark.parametrize("verbosity", ["-q", "-v"])
def test_a_missing_model_is_refused(suite, workers, verbosity):
    result = suite.run("evals", verbosity, *workers, model=None)
    check_refused(suite, result, "no model is set")
    result.stderr.fnmatch_lines(["  fix: pass one, such as --model=hf:gpt2 *"])
    assert not (suite.pytester.path / ".evals").exists()


@WORKERS
def test_a_missing_api_key_is_refused(suite, workers):
    result = suite.run("evals", *workers, model=KEYLESS)
    message = "the environment variable EVALS_NO_SUCH_KEY holds no key for "
    check_refused(suite, result, f"{message}https://api.openai.com/v1")
    assert not (suite.pytester.path / ".evals").exists()


@pytest.mark.slow
@WORKERS
def test_a_library_that_is_not_installed_is_refused(suite, workers):
    suite.pytester.makeconftest("import sys\nsys.modules['torch'] = None\n")
    spec = "openai:gpt,base_url=http://127.0.0.1:9/v1,tokenizer=tiny"
    options = ("evals", f"--model={spec}", *workers)
    result = suite.pytester.runpytest_subprocess(*options)
    message = "the openai model's tokenizer needs torch: pip install "
    message += "'pytest-model-evals[hf]'"
    check_refused(suite, result, message)


@pytest.mark.slow
@WORKERS
def test_an_unknown_hub_name_is_refused(suite, workers, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(suite.pytester.path / "hub"))
    options = ("evals", "--model=hf:acme/no-such-model", *workers)
    result = suite.pytester.runpytest_subprocess(*options)
    message = (
        "cannot load the model 'acme/no-such-model': it is not on this machine, and "
    )
    check_refused(suite, result, f"{message}HF_HUB_OFFLINE is set")


@WORKERS
def test_weights_that_cannot_be_loaded_are_refused(suite, workers, tiny_model_path):
    shutil.copytree(tiny_model_path, suite.pytester.path / "broken")
    for path in suite.pytester.path.glob("broken/*.safetensors"):
        path.write_bytes(b"\0" * 64)
    result = suite.run("evals", *workers, model="hf:broken,device=cpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: cannot load the model 'broken': *"])
    assert "= evals =" not in result.stdout.str()
    assert not list(suite.pytester.path.glob(".evals/runs/*"))


@pytest.mark.slow
def test_weights_that_cannot_be_loaded_are_an_error_once_other_tests_have_run(
    suite, tiny_model_path
):
    """Results of these must not be lost."""
    shutil.copytree(tiny_model_path, suite.pytester.path / "broken")
    for path in suite.pytester.path.glob("broken/*.safetensors"):
        path.write_bytes(b"\0" * 64)
    suite.pytester.makepyfile(test_first="def test_plain(): pass")
    options = ("test_first.py", "evals", "--model=hf:broken,device=cpu")
    result = suite.pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"passed": 1, "errors": 1, "skipped": 9}


@pytest.mark.slow
@WORKERS
def test_a_run_whose_responses_are_stored_needs_no_key(
    suite, server, monkeypatch, workers
):
    model, prompts = server
    key = os.environ["EVALS_TEST_KEY"]
    suite.run("evals", "--evals-limit=5", model=model)
    assert len(prompts) == 5
    monkeypatch.delenv("EVALS_TEST_KEY")
    stored = suite.run("evals", "--evals-limit=5", *workers, model=model)
    assert stored.ret == 0
    assert stored.parseoutcomes() == {"passed": 1, "wrong": 4}
    # excluded ones are not needed either
    chosen = suite.run("evals", "-k", "q1 or q3", *workers, model=model)
    assert chosen.ret == 0
    shutil.rmtree(suite.pytester.path / ".evals" / "runs")
    url = model.partition("base_url=")[2].partition(",")[0]
    message = f"the environment variable EVALS_TEST_KEY holds no key for {url}"
    for further in (
        ("--evals-cache=refresh", "--evals-limit=5"),
        ("--evals-cache=off",),
    ):
        result = suite.run("evals", *further, *workers, model=model)
        check_refused(suite, result, message)
    result = suite.run("evals", *workers, model=model)
    if workers:  # the responses of one worker's documents are stored
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stdout.fnmatch_lines("partial run: a worker could not open its model")
        result.stderr.fnmatch_lines(f"ERROR: {message}")
    else:
        check_refused(suite, result, message)
    assert len(prompts) == 5
    rescored = suite.run("evals", "--evals-cache=only", *workers, model=model)
    assert rescored.parseoutcomes() == {"passed": 1, "wrong": 4, "errors": 5}
    monkeypatch.setenv("EVALS_TEST_KEY", key)
    again = suite.run("evals", *workers, model=model)
    assert sum(again.parseoutcomes().values()) == 10
    assert len(prompts) == 10


@WORKERS
def test_a_conftests_model_needs_no_spec(suite, workers):
    suite.pytester.makeconftest(OVERRIDE.format(fixture="eval_model"))
    for model in (None, KEYLESS):
        result = suite.run("evals", *workers, model=model)
        assert result.parseoutcomes() == {"passed": 1, "wrong": 9}


def test_a_folder_without_a_model_of_its_own_is_refused(suite):
    """Another folder has one in its conftest."""
    own = suite.pytester.mkdir("own")
    for path in suite.evals.iterdir():
        shutil.copy(path, own / path.name)
    (own / "quiz.yaml").write_text(
        (own / "quiz.yaml").read_text().replace("task: quiz", "task: other")
    )
    (own / "conftest.py").write_text(OVERRIDE.format(fixture="eval_model"))
    assert suite.run("own", model=None).ret == 0
    shutil.rmtree(suite.pytester.path / ".evals")
    result = suite.run("own", "evals", model=None)
    check_refused(suite, result, "no model is set")


@pytest.mark.parametrize("option", ["--collect-only", "--evals-plan", "--setup-plan"])
def test_a_session_without_requests_needs_no_model(suite, option):
    assert suite.run("evals", option, model=KEYLESS).ret == 0


def test_plain_tests_need_no_model(suite):
    suite.pytester.makepyfile("def test_plain(): pass")
    result = suite.run("-m", "not evals", model=KEYLESS)
    assert result.parseoutcomes() == {"passed": 1, "deselected": 10}


def test_messages_that_name_an_option_show_where_the_ini_file_sets_it(suite):
    suite.pytester.makeini(f"[pytest]\nevals_model = {KEYLESS}\n")
    result = suite.run("evals", model=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR


JUDGED = """
from pytest_evals import Ask, Generate, Score
from dataclasses import replace

def pytest_evals_load_tasks(path, config):
    from pytest_evals.dialects.readers import READERS
    from pytest_evals.plugin.session import session_of
    if path.suffix != ".yaml":
        return None
    (task,) = READERS["lm_eval"](path, session_of(config).task_options)

    def follow_up(record):
        yield [Ask("grader", Generate("right?"))]

    def score(record):
        text = record.exchanges[0].response.text
        return (Score(metric="exact_match", value=1.0, correct=text == "yes"),)

    made = replace(task, follow_up=follow_up, score=score, models={"grader": GRADER})
    return [made]

"""


@pytest.mark.slow
@WORKERS
@pytest.mark.parametrize("named", [False, True], ids=["option", "task"])
def test_a_judge_that_cannot_be_opened_is_refused_before_the_first_request(
    suite, server, monkeypatch, workers, named
):
    model, prompts = server
    judge = model.replace("openai:gpt", "openai:judge,api=chat")
    judge = judge.replace("EVALS_TEST_KEY", "EVALS_JUDGE_KEY")
    grader = f"{judge!r}" if named else '""'
    suite.pytester.makeconftest(JUDGED + f"GRADER = {grader}\n")
    options = ("evals", *workers, *(() if named else (f"--evals-judge={judge}",)))
    monkeypatch.delenv("EVALS_JUDGE_KEY", raising=False)
    result = suite.run(*options, model=model)
    who = "the model 'grader'" if named else "a judge"
    url = model.partition("base_url=")[2].partition(",")[0]
    message = f"the environment variable EVALS_JUDGE_KEY holds no key for {url}"
    check_refused(suite, result, f"quiz (evals/quiz.yaml:1) needs {who}: {message}")
    assert prompts == []
    monkeypatch.setenv("EVALS_JUDGE_KEY", "sk-judge")
    first = suite.run(*options, model=model)
    assert first.parseoutcomes() == {"passed": 10}
    n = len(prompts)
    assert n in (11, 11 + len(workers))  # each worker may need the judge
    monkeypatch.delenv("EVALS_JUDGE_KEY")
    monkeypatch.delenv("EVALS_TEST_KEY")
    stored = suite.run(*options, model=model)
    assert stored.parseoutcomes() == {"passed": 10}
    assert len(prompts) == n


def test_a_server_that_cannot_be_reached_is_an_error_of_the_first_document(suite):
    """It is known only at the first request."""
    spec = "openai:gpt,base_url=http://127.0.0.1:9/v1,max_retries=0"
    result = suite.run("evals", model=spec)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes() == {"failed": 1, "skipped": 9}


def test_evaluate_refuses_a_judge_before_the_first_request(suite, server):
    model, prompts = server

    class Plugin:
        def pytest_evals_load_tasks(self, path, config):
            from dataclasses import replace

            from pytest_evals import Ask, Generate, TaskOptions
            from pytest_evals.dialects.readers import READERS

            (task,) = READERS["lm_eval"](path, TaskOptions())

            def follow_up(record):
                yield [Ask("judge", Generate("right?"))]

            return [replace(task, follow_up=follow_up, models={"judge": ""})]

    path = suite.evals / "quiz.yaml"
    with pytest.raises(OptionError, match=r"quiz .* needs a judge: no judge is set"):
        evaluate(path, model, plugins=[Plugin()])
    with pytest.raises(
        (OptionError, ModelError), match="needs a judge: the environment variable"
    ):
        evaluate(path, model, judge=KEYLESS, plugins=[Plugin()])
    assert prompts == []


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)]
)
def test_requests_go_to_the_address_in_the_environment_which_the_header_shows(
    workers, suite, server, monkeypatch
):
    spec, prompts = server
    url = spec.partition("base_url=")[2].partition(",")[0]
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    suite.run("evals", *workers, model="openai:gpt,api_key_env=EVALS_TEST_KEY")
    assert len(prompts) == 10
    header = suite.pytester.runpytest(
        "--evals-model=openai:gpt,api_key_env=EVALS_TEST_KEY", "evals"
    )
    header.stdout.fnmatch_lines([f"evals: 1 task*model openai:gpt*at {url}"])
    assert len(prompts) == 10


def test_the_header_shows_the_address_of_a_judge_from_the_environment(
    suite, server, monkeypatch
):
    spec, _ = server
    url = spec.partition("base_url=")[2].partition(",")[0]
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    suite.pytester.makefile(
        ".yaml", j="prompt: 'q?'\nrows: [{a: b}]\nscore: {judge: 'Good?'}\n"
    )
    judge = "--evals-judge=openai:gpt,api_key_env=EVALS_TEST_KEY"
    result = suite.run("j.yaml", judge, model="scripted:echo")
    result.stdout.fnmatch_lines([f"evals: *judge openai:gpt*at {url}"])


@pytest.mark.parametrize("role", ["model", "judge"])
def test_an_invalid_proxy_is_one_usage_error_that_names_the_variable(
    role, suite, server, monkeypatch
):
    spec, prompts = server
    monkeypatch.setenv("HTTPS_PROXY", "foo://me:s3cretpass@proxy:1")
    folder = suite.pytester.path
    if role == "judge":
        text = "prompt: 'q?'\nrows: [{a: b}]\nscore: {judge: 'Good?'}\n"
        (folder / "j.yaml").write_text(text)
        result = suite.run("j.yaml", f"--evals-judge={spec}", model="scripted:echo")
    else:
        result = suite.run("evals", model=spec)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*the environment variable HTTPS_PROXY has an unknown scheme, 'foo':*"]
    )
    text = result.stdout.str() + result.stderr.str()
    assert "s3cretpass" not in text
    assert "Traceback" not in text
    assert len(result.errlines) < 5
    assert prompts == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
def test_a_proxy_that_cannot_be_reached_is_named(variable, suite, server, monkeypatch):
    spec, _ = server
    for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "http://me:s3cretpass@127.0.0.1:9")
    result = suite.run("evals", model=f"{spec},max_retries=0")
    result.stdout.fnmatch_lines(
        [
            f"*the connection through the proxy in {variable} failed*",
            "  fix: check the proxy, or list the server's host in NO_PROXY",
        ]
    )
    assert "s3cretpass" not in result.stdout.str()
