"""``pytest_evals_open_model``: the hook handles the specs that it opens, and no
others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_evals import Model, ModelError, Response, evaluate

WORKERS = pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
KEY = "EVALS_TEST_KEY"
DECLINES = """
def pytest_evals_open_model(spec, config):
    with open("called.txt", "a") as log:
        print(spec, file=log)
    return None
"""
TAKES = """
from pytest_evals import Response


class Taken:
    name = "taken"
    {members}

    def __init__(self):
        with open("opened.txt", "a") as log:
            print("opened", file=log)

    def answer(self, requests):
        for position, request in enumerate(requests):
            with open("requests.txt", "a") as log:
                print(request.prompt, file=log)
            yield position, Response(text="a" + request.prompt.split()[-1][0])

    def close(self):
        with open("closed.txt", "a") as log:
            print("closed", file=log)


def pytest_evals_open_model(spec, config):
    if spec.startswith({prefix!r}):
        return Taken()
"""


def lines(suite, name):
    path = suite.pytester.path / name
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.slow
@WORKERS
def test_stored_responses_are_used_if_the_model_hook_declines(
    suite, server, workers, monkeypatch
):
    spec, prompts = server
    suite.pytester.makeconftest(DECLINES)
    first = suite.run("evals", *workers, model=spec)
    assert len(prompts) == 10
    monkeypatch.delenv(KEY)  # it can no longer be opened
    second = suite.run("evals", *workers, model=spec)
    assert len(prompts) == 10
    assert first.parseoutcomes() == second.parseoutcomes() == {"passed": 1, "wrong": 9}
    second.stdout.fnmatch_lines(["responses: 10 reused from the store*"])
    assert set(lines(suite, "called.txt")) == {spec}


@WORKERS
def test_compatibility_is_checked_if_the_model_hook_declines(
    suite, server, workers, monkeypatch
):
    spec, prompts = server
    suite.pytester.makeconftest(DECLINES)
    monkeypatch.delenv(KEY)
    result = suite.run("evals", *workers, model=spec)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: the environment variable {KEY} holds no key" in (
        result.stderr.str() + result.stdout.str()
    )
    wrong = suite.run("evals", *workers, model="scripted:frist")
    assert wrong.ret == pytest.ExitCode.USAGE_ERROR
    text = wrong.stderr.str() + wrong.stdout.str()
    assert "unknown scripted model 'frist'; did you mean 'first'?" in text
    assert prompts == []


def test_the_plan_uses_the_store_if_the_model_hook_declines(suite, server):
    spec, _ = server
    suite.pytester.makeconftest(DECLINES)
    suite.run("evals", "--evals-limit=4", model=spec)
    result = suite.run("evals", "--evals-plan", model=spec)
    result.stdout.fnmatch_lines(["task * stored *", "quiz * 70 characters * 4 *"])


@pytest.mark.slow
@WORKERS
def test_a_model_hook_may_open_specs_of_built_in_kinds(suite, server, workers):
    spec, prompts = server
    suite.run("evals", model=spec)
    assert len(prompts) == 10
    suite.pytester.makeconftest(TAKES.format(members="", prefix="openai:"))
    result = suite.run("evals", *workers, model=spec)
    assert result.parseoutcomes() == {"passed": 10}, "nothing is the server's"
    assert len(prompts) == 10
    assert len(lines(suite, "requests.txt")) == 10
    n_workers = max(1, len(workers) * 2)
    assert len(lines(suite, "opened.txt")) == n_workers
    assert len(lines(suite, "closed.txt")) == n_workers


@WORKERS
def test_a_model_hook_may_open_specs_that_the_built_in_kind_refuses(suite, workers):
    suite.pytester.makeconftest(TAKES.format(members="", prefix="hf:mine"))
    result = suite.run("evals", *workers, model="hf:mine,strange=1")
    assert result.parseoutcomes() == {"passed": 10}
    opened, closed = lines(suite, "opened.txt"), lines(suite, "closed.txt")
    assert len(opened) == len(closed)
    other = suite.run("evals", *workers, model="hf:other,strange=1")
    assert other.ret == pytest.ExitCode.USAGE_ERROR


def test_a_hooks_model_is_stored_by_its_own_fingerprint(suite):
    members = "fingerprint = {'version': 1}"
    suite.pytester.makeconftest(TAKES.format(members=members, prefix="own:"))
    suite.run("evals", model="own:x")
    result = suite.run("evals", model="own:x")
    assert len(lines(suite, "requests.txt")) == 10
    result.stdout.fnmatch_lines(["responses: 10 reused from the store*"])
    assert lines(suite, "opened.txt") == ["opened"] * 2
    assert lines(suite, "closed.txt") == ["closed"] * 2


@pytest.mark.slow
def test_a_model_hook_decides_for_each_spec(suite, server):
    """The tested model is cached although the hook opens the reference model."""
    spec, prompts = server
    gate = {"metric": "exact_match", "baseline": "scripted:mine", "max_drop": 0.95}
    suite.task("quiz", gates=[{**gate, "over": "run"}])
    suite.pytester.makeconftest(TAKES.format(members="", prefix="scripted:mine"))
    suite.run("evals", model=spec)
    result = suite.run("evals", model=spec)
    assert len(prompts) == 10
    result.stdout.fnmatch_lines(["quiz *0.100* vs scripted:mine *passed"])


def test_an_error_of_a_hook_is_an_error_of_the_first_document(suite):
    suite.pytester.makeconftest(
        """
        def pytest_evals_open_model(spec, config):
            raise RuntimeError("no room")
        """
    )
    result = suite.run("evals", model="hf:no-such-folder/x")
    assert result.ret == 1
    assert result.parseoutcomes() == {"errors": 1, "skipped": 9}
    result.stdout.fnmatch_lines(["*RuntimeError: no room*"])


def test_a_model_hook_must_return_a_model(suite):
    suite.pytester.makeconftest(
        "def pytest_evals_open_model(spec, config): return ['no model']"
    )
    result = suite.run("evals", model="own:x")
    assert result.ret == 1
    message = (
        "the hook pytest_evals_open_model gave ['no model'] (list), which is not a"
    )
    assert (
        f"{message} model\n  fix: return an object with a name" in result.stdout.str()
    )


def test_an_unknown_kind_that_no_hook_opens_is_refused(suite):
    suite.pytester.makeconftest(DECLINES)
    result = suite.run("evals", model="scriptd:first")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    assert "unknown kind of model 'scriptd'; did you mean 'scripted'?" in text


def test_a_hook_wrapper_gets_the_model_of_the_kind(suite):
    suite.pytester.makeconftest(
        """
        import pytest
        from dataclasses import replace
        from pytest_evals import Model

        class Shouting(Model):
            def __init__(self, model):
                self.name, self._model = "shouting", model

            def answer(self, requests):
                for position, response in self._model.answer(requests):
                    yield position, replace(response, text=response.text.upper())

        @pytest.hookimpl(wrapper=True)
        def pytest_evals_open_model():
            return Shouting((yield))
        """
    )
    result = suite.run("evals")
    assert result.parseoutcomes() == {"wrong": 10}
    assert {s["resps"][0][0] for s in suite.samples()} == {f"A{i}" for i in range(10)}


@pytest.mark.slow
def test_stored_responses_are_used_if_a_scripts_plugin_declines(
    suite, server, monkeypatch
):
    monkeypatch.chdir(suite.pytester.path)
    spec, prompts = server
    declines = SimpleNamespace(pytest_evals_open_model=lambda spec: None)
    for _ in range(2):
        result = evaluate("evals", spec, folder=".evals", plugins=[declines])
    assert (len(prompts), result.reuse.n_reused) == (10, 10)


def test_subclasses_and_other_objects_are_accepted_as_models(suite, monkeypatch):
    monkeypatch.chdir(suite.pytester.path)

    class Base(Model):
        name = "mine"
        notes = ("the answers are canned",)

        def __init__(self):
            self.info = {"size": 3}

        def answer(self, requests):
            for position, request in enumerate(requests):
                text = "a" + request.prompt.split()[-1][0]
                yield position, Response(text=text)

    class Plain:
        name, notes, info = Base.name, Base.notes, {"size": 3}
        answer = Base.answer

    found = [evaluate("evals", model) for model in (Base(), Plain())]
    for result in found:
        assert result.tasks[0].n_correct == 10
        assert (result.model, result.model_info) == ("mine", {"size": 3})
        assert "the answers are canned" in result.warnings


def test_a_judge_without_a_name_is_refused():
    judge = SimpleNamespace(answer=list)
    with pytest.raises(ModelError, match="its name is None"):
        evaluate("evals", "scripted:first", judge=judge)


def test_a_subclass_without_answer_cannot_be_instantiated():
    class Half(Model):
        name = "half"

    with pytest.raises(TypeError, match="answer"):
        Half()
