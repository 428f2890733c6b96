"""Models that return invalid values: an error of the document, however the model was
passed; never a score, and never stored."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from pytest_evals import Response, evaluate

CLASS = """
from pytest_evals import Generate, Response

class Odd:
    name = NAME
    FINGERPRINT

    def answer(self, requests):
        for position, request in enumerate(requests):
            right = position != 3
            if isinstance(request, Generate):
                good, bad = Response(text=f"a{position}"), BAD_TEXT
            else:
                good, bad = Response(logprob=-1.0, greedy=True), BAD_LOGPROB
            yield position, good if right else bad
"""
WAYS = {
    "fixture": """
import pytest

@pytest.fixture(scope="session")
def eval_model():
    return Odd()
""",
    "hook": """
def pytest_evals_open_model(spec, config):
    return Odd() if spec == "odd:" else None
""",
}
INVALID = {
    "bytes": ("Response(text=b'a3')", "Response(logprob=b'-1')"),
    "number": ("Response(text=3)", "Response(logprob=float('inf'))"),
    "nan": ("Response(text=float('nan'))", "Response(logprob=float('nan'))"),
    "positive": ("Response(text='a3', n_tokens=-4)", "Response(logprob=5.0)"),
    "boolean": ("Response(text=True)", "Response(logprob=True)"),
    "none": ("None", "None"),
    "other kind": ("Response(logprob=-1.0)", "Response(text='a3')"),
}


def source(bad=INVALID["bytes"], *, fingerprint="", name="'odd'"):
    text = CLASS.replace("BAD_TEXT", bad[0]).replace("BAD_LOGPROB", bad[1])
    return text.replace("FINGERPRINT", fingerprint).replace("NAME", name)


@pytest.mark.parametrize("bad", INVALID.values(), ids=INVALID)
@pytest.mark.parametrize("way", WAYS)
def test_an_invalid_text_is_an_error_of_its_document(suite, way, bad):
    suite.pytester.makeconftest(source(bad) + WAYS[way])
    model = "odd:" if way == "hook" else None
    result = suite.run("evals", model=model)
    result.assert_outcomes(passed=9, errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR at call of quiz?q3?*", "Odd 'odd': answer() gave *"]
    )
    assert result.ret == 1


@pytest.mark.parametrize("bad", INVALID.values(), ids=INVALID)
def test_an_invalid_log_probability_is_an_error_of_its_document(suite, bad):
    suite.task("quiz", output_type="loglikelihood", metric_list=[{"metric": "acc"}])
    suite.pytester.makeconftest(source(bad) + WAYS["fixture"])
    result = suite.run("evals", model=None)
    result.assert_outcomes(passed=9, errors=1)
    result.stdout.fnmatch_lines(["Odd 'odd': answer() gave *"])


@pytest.mark.parametrize("bad", INVALID.values(), ids=INVALID)
def test_evaluate_has_the_same_error(suite, bad):
    names: dict[str, object] = {}
    exec(source(bad), names)
    result = evaluate(suite.evals / "quiz.yaml", names["Odd"]())
    (task,) = result.tasks
    assert (task.n_errored, task.n_correct) == (1, 9)
    assert task.records[3].error.startswith("Odd 'odd': answer() gave ")


def test_invalid_responses_are_not_stored(suite):
    bad = ("Response(text='a3', n_tokens=True)", "None")
    known = "fingerprint = {'version': 1}"
    suite.pytester.makeconftest(source(bad, fingerprint=known) + WAYS["fixture"])
    suite.run("evals", model=None).assert_outcomes(passed=9, errors=1)
    path = suite.pytester.path / ".evals/responses.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT response FROM responses").fetchall()
    connection.close()
    assert sorted(json.loads(row)["text"] for (row,) in rows) == [
        f"a{i}" for i in range(10) if i != 3
    ]
    text = source(fingerprint=known).replace("position != 3", "True")
    suite.pytester.makeconftest(
        text.replace('f"a{position}"', '"a3"') + WAYS["fixture"]
    )
    result = suite.run("evals", model=None)
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["responses: 1 sent, 9 reused from the store*"])


def test_an_invalid_response_in_an_older_store_is_sent_again(suite):
    from pytest_evals.core.key import request_keys
    from pytest_evals.core.request import Generate
    from pytest_evals.store.responses import Responses

    text = source(fingerprint="fingerprint = {'version': 1}")
    text = text.replace("position != 3", "True")
    suite.pytester.makeconftest(text + WAYS["fixture"])
    suite.run("evals", model=None).assert_outcomes(passed=10)
    responses = Responses(
        suite.pytester.path / ".evals", {"given": "odd", "version": 1}
    )
    request = Generate("quiz 0?", stop=("\n\n",), max_tokens=256)
    (key,) = request_keys([request])
    assert responses.read([key])[key].text == "a0"
    responses.add(key, Response(text="a0", n_tokens=-7))
    responses.close()
    result = suite.run("evals", model=None)
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["responses: 1 sent, 9 reused from the store*"])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_model_name_that_is_not_a_string_is_one_error(suite, way):
    suite.pytester.makeconftest(source(name="7") + WAYS[way])
    result = suite.run("evals", model="odd:" if way == "hook" else None)
    result.assert_outcomes(errors=1, skipped=9)
    result.stdout.fnmatch_lines(
        [
            "the model Odd: its name is 7 (int)",
            '  fix: use a str, such as name = "my-model"',
        ]
    )
    assert "Traceback" not in result.stdout.str()
