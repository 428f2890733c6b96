"""The store in whole runs: stored responses are not requested again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

MODEL = """
import json
from pathlib import Path

import pytest

from pytest_evals import Response

HERE = Path(__file__).parent


class Counting:
    name = "counting"
    info = {"size": 3}
    FINGERPRINT

    def __init__(self):
        self.answers = json.loads((HERE / "known.json").read_text())
        with (HERE / "opened.txt").open("a") as log:
            log.write("opened\\n")

    def answer(self, requests):
        for position, request in enumerate(requests):
            with (HERE / "requests.txt").open("a") as log:
                log.write(request.prompt + "\\n")
            text = self.answers.get(request.prompt)
            error = "" if text is not None else "the server is down"
            yield position, Response(
                text=text or "", error=error, n_tokens=1, elapsed_s=2.0
            )


@pytest.fixture(scope="session")
def eval_model():
    return Counting()
"""


@pytest.fixture
def counting(suite):
    """A suite with a model that logs its requests."""
    model(suite)
    knows(suite, {f"quiz {i}?": f"a{i}" for i in range(10)})
    return suite


def model(suite, fingerprint="fingerprint = {'version': 1}"):
    suite.pytester.makeconftest(MODEL.replace("FINGERPRINT", fingerprint))


def knows(suite, answers):
    (suite.pytester.path / "known.json").write_text(json.dumps(answers))


def prompts_sent(suite):
    """Prompts that the model received since the last call."""
    path = suite.pytester.path / "requests.txt"
    found = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def newest(suite, name):
    """A file of the newest run."""
    runs = suite.pytester.path.glob(".evals/runs/*")
    return (max(runs, key=lambda p: p.stat().st_mtime_ns) / name).read_text()


def run(suite, *arguments):
    return suite.run("evals", *arguments, model=None)


QUIZ = [f"quiz {i}?" for i in range(10)]


def test_a_second_run_sends_no_requests_and_has_equal_results(counting):
    first = run(counting)
    assert prompts_sent(counting) == QUIZ
    lines = newest(counting, "samples_quiz.jsonl")
    second = run(counting)
    assert prompts_sent(counting) == []
    assert newest(counting, "samples_quiz.jsonl") == lines
    assert first.parseoutcomes() == second.parseoutcomes() == {"passed": 10}
    first.stdout.fnmatch_lines(["responses: 10 sent", "time: * tokens/s)*"])
    second.stdout.fnmatch_lines(
        ["responses: 10 reused from the store (originally took 20.0 s)"]
    )
    second.stdout.no_fnmatch_line("*tokens/s*")
    assert json.loads(newest(counting, "results.json"))["n_reused"] == 10


def test_only_new_requests_are_sent(counting):
    run(counting, "--evals-limit=4")
    prompts_sent(counting)
    result = run(counting)
    assert prompts_sent(counting) == QUIZ[4:]
    result.stdout.fnmatch_lines(["responses: 6 sent, 4 reused from the store (*"])


@pytest.mark.parametrize(
    "change",
    [
        {"doc_to_text": "Now: {{question}}"},
        {"generation_kwargs": {"until": ["\n", "x"]}},
        {"generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 7}},
        {"generation_kwargs": {"until": ["\n\n"], "temperature": 0.5}},
        {"description": "Answer."},
    ],
)
def test_changed_requests_are_sent_again(counting, change):
    run(counting)
    prompts_sent(counting)
    counting.task("quiz", **change)
    run(counting)
    assert len(prompts_sent(counting)) == 10


@pytest.mark.slow
def test_each_repeat_is_sent_and_stored_separately(counting):
    sampled = {"until": ["\n\n"], "temperature": 0.5, "do_sample": True}
    counting.task("quiz", repeats=3, generation_kwargs=sampled)
    run(counting)
    assert len(prompts_sent(counting)) == 30
    run(counting)
    assert prompts_sent(counting) == []
    counting.task("quiz", repeats=4, generation_kwargs=sampled)
    run(counting)
    assert prompts_sent(counting) == QUIZ


@pytest.mark.parametrize(
    "change",
    [
        {"doc_to_target": "a1"},
        {"metric_list": [{"metric": "exact_match", "ignore_case": True}]},
        {"filter_list": [{"name": "own", "filter": [{"function": "lowercase"}]}]},
    ],
)
def test_a_change_of_the_scoring_sends_no_requests(counting, change):
    run(counting)
    prompts_sent(counting)
    counting.task("quiz", **change)
    run(counting, "--evals-cache=only")
    assert prompts_sent(counting) == []


def test_another_fingerprint_sends_requests_again(counting):
    run(counting)
    prompts_sent(counting)
    model(counting, "fingerprint = {'version': 2}")
    run(counting)
    assert prompts_sent(counting) == QUIZ


def test_documents_with_errors_are_sent_again(counting):
    knows(counting, {f"quiz {i}?": f"a{i}" for i in range(8)})
    assert run(counting).parseoutcomes() == {"passed": 8, "errors": 2}
    prompts_sent(counting)
    knows(counting, {f"quiz {i}?": f"a{i}" for i in range(10)})
    assert run(counting).parseoutcomes() == {"passed": 10}
    assert prompts_sent(counting) == QUIZ[8:]


@pytest.mark.slow
def test_refresh_sends_every_request_again_and_stores_the_responses(counting):
    run(counting)
    knows(counting, dict.fromkeys(QUIZ, "new"))
    prompts_sent(counting)
    assert run(counting, "--evals-cache=refresh").parseoutcomes() == {"wrong": 10}
    assert prompts_sent(counting) == QUIZ
    assert run(counting).parseoutcomes() == {"wrong": 10}
    assert prompts_sent(counting) == []


def test_cache_off_neither_reads_nor_writes_the_store(counting):
    run(counting)
    knows(counting, dict.fromkeys(QUIZ, "new"))
    prompts_sent(counting)
    result = run(counting, "--evals-cache=off")
    assert result.parseoutcomes() == {"wrong": 10}
    result.stdout.no_fnmatch_line("responses:*")
    assert prompts_sent(counting) == QUIZ
    assert run(counting).parseoutcomes() == {"passed": 10}


def test_cache_only_reports_documents_without_a_stored_response(counting):
    counting.task("quiz", gates=["exact_match >= 0.5"])
    run(counting, "--evals-limit=4")
    prompts_sent(counting)
    result = run(counting, "--evals-cache=only")
    assert result.parseoutcomes() == {"passed": 4, "errors": 6, "failed": 1}
    assert prompts_sent(counting) == []
    result.stdout.fnmatch_lines(
        [
            "*not in the store: this model has not answered this request before",
            "*fix: run once without --evals-cache=only",
            "gates: 1 invalid",
        ]
    )


def test_cache_only_needs_a_model_whose_responses_are_stored(suite):
    result = suite.run("evals", "--evals-cache=only")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = "--evals-cache=only reads stored responses only, and those of scripted:*"
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_a_model_without_fingerprint_is_not_stored_and_warns(counting):
    model(counting, "")
    run(counting)
    assert prompts_sent(counting) == QUIZ
    result = run(counting)
    assert prompts_sent(counting) == QUIZ
    result.stdout.fnmatch_lines(
        ["responses: none stored, because counting has no fingerprint"]
    )
    assert not (counting.pytester.path / ".evals" / "responses.sqlite").exists()


@pytest.mark.slow
def test_a_fingerprint_that_is_not_json_is_refused(counting):
    model(counting, "fingerprint = {'weights': {1, 2}}")
    result = run(counting)
    assert result.parseoutcomes() == {"errors": 1, "skipped": 9}
    result.stdout.fnmatch_lines(
        ["*the fingerprint of the model 'counting' is not JSON*"]
    )


def test_a_scripted_model_writes_no_store(suite):
    suite.run("evals")
    assert not (suite.pytester.path / ".evals" / "responses.sqlite").exists()


@pytest.mark.slow
def test_the_ini_file_sets_the_use_of_the_store_and_the_command_line_overrides_it(
    counting,
):
    counting.pytester.makeini("[pytest]\nevals_cache = off\n")
    run(counting)
    assert prompts_sent(counting) == QUIZ
    run(counting, "--evals-cache=use")
    assert prompts_sent(counting) == QUIZ
    counting.pytester.makeini("[pytest]\nevals_cache = only\n")
    assert run(counting).parseoutcomes() == {"passed": 10}
    assert prompts_sent(counting) == []
    run(counting, "--evals-cache=refresh")
    assert prompts_sent(counting) == QUIZ


def test_a_damaged_store_is_a_warning(counting):
    run(counting)
    store = counting.pytester.path / ".evals" / "responses.sqlite"
    store.write_text("scribble " * 1000)
    prompts_sent(counting)
    result = run(counting)
    assert prompts_sent(counting) == QUIZ
    assert result.ret == 0
    result.stdout.fnmatch_lines(["warning: *cannot be used: file is not a data*"])


def test_a_folder_at_the_path_of_the_store_is_refused_before_the_first_request(
    counting,
):
    (counting.pytester.path / ".evals" / "responses.sqlite").mkdir(parents=True)
    result = run(counting)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: cannot write *responses.sqlite*", "  fix: *"])
    assert prompts_sent(counting) == []


@pytest.mark.slow
def test_workers_share_one_store(counting):
    first = run(counting, "-n2")
    assert sorted(prompts_sent(counting)) == QUIZ
    second = run(counting, "-n2")
    assert prompts_sent(counting) == []
    first.stdout.fnmatch_lines(["responses: 10 sent"])
    second.stdout.fnmatch_lines(["responses: 10 reused from the store (*20.0 s)"])


def test_the_store_contains_no_api_keys(counting):
    run(counting)
    with (
        closing(
            sqlite3.connect(counting.pytester.path / ".evals/responses.sqlite")
        ) as store,
        store,
    ):
        (fingerprint,) = store.execute("SELECT fingerprint FROM models").fetchone()
    assert json.loads(fingerprint) == {"given": "counting", "version": 1}


@pytest.mark.slow
def test_an_hf_model_is_loaded_only_if_responses_are_missing(suite, tiny_model_path):
    """Its files identify the model: neither torch nor transformers is imported."""
    spec = f"hf:{tiny_model_path}"
    suite.task("quiz", generation_kwargs={"until": ["?"], "max_gen_toks": 4})
    suite.pytester.makeconftest(
        "import sys\n"
        "def pytest_evals_result(result):\n"
        "    print('\\nheavy:', {'torch', 'transformers'} & set(sys.modules))\n"
    )
    first = suite.run("evals", model=spec)
    again = suite.pytester.runpytest_subprocess("evals", f"--model={spec}", "-s")
    other = suite.run("evals", model=f"{spec},dtype=bfloat16")
    first.stdout.fnmatch_lines(["responses: 10 sent"])
    again.stdout.fnmatch_lines(["heavy: set()", "responses: 10 reused from the store*"])
    other.stdout.fnmatch_lines(["responses: 10 sent"])


def explain(suite, name="quiz[q3]"):
    return run(suite, f"--evals-cache-info=evals/quiz.yaml::{name}")


def test_cache_info_sends_no_requests_and_writes_no_run(counting):
    result = explain(counting)
    assert result.ret == 0
    assert prompts_sent(counting) == []
    assert not (counting.pytester.path / ".evals").exists()
    result.stdout.fnmatch_lines(
        [
            "evals/quiz.yaml::quiz[[]q3[]]: 1 request",
            "request 0: not in the store; no similar request is stored",
        ]
    )


def test_cache_info_shows_when_a_response_was_stored(counting):
    run(counting)
    result = explain(counting)
    result.stdout.fnmatch_lines(["request 0: in the store since 2*-*-* *:*:* UTC"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"doc_to_text": "{{question}} Say it:"},
            "prompt differs from character 7: 'quiz 3[?] Say it:', was 'quiz 3[?]'",
        ),
        (
            {"generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 7}},
            "max_tokens is 7, was 256",
        ),
        ({"generation_kwargs": {"until": ["x"]}}, "stop is [[]'x'], was *"),
    ],
)
def test_cache_info_names_changes_of_the_request(counting, change, why):
    run(counting)
    counting.task("quiz", **change)
    explain(counting).stdout.fnmatch_lines(
        ["request 0: not in the store; the nearest was stored 2*", f"  {why}"]
    )


@pytest.mark.slow
def test_cache_info_names_changes_of_the_model(counting):
    run(counting)
    model(counting, "fingerprint = {'version': 1, 'files': {'a.bin': 'ff'}}")
    run(counting)
    model(counting, "fingerprint = {'version': 1, 'files': {'a.bin': '00'}}")
    explain(counting).stdout.fnmatch_lines(
        [
            "request 0: not in the store; the nearest was stored 2*",
            "  model: files/a.bin is '00', was 'ff'",
        ]
    )


def test_cache_info_of_an_unknown_document_suggests_the_closest_id(counting):
    result = explain(counting, "quizz[q3]")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*no document 'evals/quiz.yaml::quizz[[]q3[]]'; did you mean 'evals/quiz*"]
    )


def selected(suite, words, *arguments):
    return run(suite, f"--evals-only={words}", *arguments)


def test_gates_over_a_selection_are_judged_if_all_other_responses_are_stored(counting):
    counting.task("quiz", gates=["exact_match >= 0.9"])
    knows(counting, {f"quiz {i}?": f"a{i}" for i in range(8)} | {"quiz 8?": "no"})
    # q8 is wrong and q9 has no answer: the gate is invalid.
    assert run(counting).parseoutcomes() == {
        "passed": 8,
        "wrong": 1,
        "errors": 1,
        "failed": 1,
    }
    prompts_sent(counting)
    knows(counting, {"quiz 9?": "a9"})
    done = selected(counting, "error")
    assert done.ret == 0
    assert done.parseoutcomes() == {"passed": 2, "deselected": 9}
    assert prompts_sent(counting) == ["quiz 9?"]
    done.stdout.fnmatch_lines(["quiz: 9 documents out of the store, not run again"])
    results = json.loads(newest(counting, "results.json"))
    assert results["partial"] == ""
    assert results["gates"][0]["outcome"] == "passed"
    # the same as if all had been run: 9 of 10 are correct
    assert results["results"]["quiz"]["exact_match,none"] == 0.9
    rows = newest(counting, "samples_quiz.jsonl").splitlines()
    assert len(rows) == 10


@pytest.mark.slow
def test_a_gate_that_fails_over_all_documents_fails_over_a_selection(counting):
    counting.task("quiz", gates=["exact_match >= 0.9"])
    knows(counting, {f"quiz {i}?": "a0" for i in range(9)})
    assert run(counting).ret == 1
    knows(counting, {"quiz 9?": "a9"})
    done = selected(counting, "error")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["exact_match 0.200 is not >= 0.9 (2 of 10)"])


@pytest.mark.parametrize("changed", ["prompt", "fresh", "hook"])
def test_a_gate_is_skipped_if_responses_are_not_stored(counting, changed):
    counting.task("quiz", gates=["exact_match >= 0.5"])
    knows(counting, {f"quiz {i}?": f"a{i}" for i in range(9)})
    run(counting)
    more = ()
    if changed == "prompt":
        counting.task(
            "quiz", gates=["exact_match >= 0.5"], doc_to_text="Q: {{question}}"
        )
    elif changed == "fresh":
        more = ("--evals-cache=refresh",)
    else:
        path = counting.pytester.path / "conftest.py"
        hook = "\n\ndef pytest_evals_score(record, task):\n    return None\n"
        path.write_text(path.read_text() + hook)
    knows(counting, {"quiz 9?": "a9", "Q: quiz 9?": "a9"})
    outcomes = selected(counting, "error", *more).parseoutcomes()
    assert outcomes == {"passed": 1, "skipped": 1, "deselected": 9}


def test_an_interrupted_run_resumes_to_the_verdict_of_the_complete_run(counting):
    counting.task("quiz", gates=["exact_match >= 0.9"])
    knows(counting, {f"quiz {i}?": f"a{i}" for i in range(4)})
    assert run(counting, "-x").ret == 1  # stops at q4, whose answer is missing
    knows(counting, {f"quiz {i}?": f"a{i}" for i in range(10)})
    prompts_sent(counting)
    done = selected(counting, "missing,error")
    assert done.ret == 0
    assert done.parseoutcomes() == {"passed": 7, "deselected": 4}
    assert prompts_sent(counting) == [f"quiz {i}?" for i in range(4, 10)]
