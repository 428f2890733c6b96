"""Validity of responses, for every kind of model."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pytest_evals.core.model import Model
from pytest_evals.core.request import Generate, Loglikelihood, Response, Rolling
from pytest_evals.core.response_contract import (
    as_model,
    checked_response,
    responses_of,
)
from pytest_evals.errors import ModelError

WRITE = Generate("Say yes.")
SCORE = Loglikelihood("Say", " yes")
PERPLEXITY = Rolling("yes")


class Mine(Model):
    name = "mine"

    def __init__(self, given=()):
        self.given = given

    def answer(self, requests):
        return self.given


class Odd:
    def __repr__(self):
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    "response",
    [
        Response(text="yes"),
        Response(text=""),
        Response(text="yes", logprob=-1.0, finish="length", n_tokens=2**52),
        Response(text="\ud800 and \0"),
        Response(error="the server is down"),
        Response(error="the server is down", text="", n_tokens=-1),
    ],
)
def test_a_valid_text_is_passed_on_as_it_is(response):
    assert checked_response(WRITE, response, Mine()) is response


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"text": "I can't."}, 'mine: the model refused: "I can\'t."'),
        ({}, "mine: the model refused"),
        ({"text": "no", "error": "refused by policy 7"}, "refused by policy 7"),
    ],
)
def test_a_refusal_is_an_error_that_keeps_its_text(given, error):
    found = checked_response(WRITE, Response(finish="refused", **given), Mine())
    assert (found.error, found.text) == (error, given.get("text", ""))


@pytest.mark.parametrize("request_", [SCORE, PERPLEXITY])
@pytest.mark.parametrize("logprob", [-3.5, 0.0, -0.0, -math.inf, 1e-4])
def test_a_valid_log_probability_is_passed_on_as_it_is(request_, logprob):
    response = Response(logprob=logprob, greedy=True)
    assert checked_response(request_, response, Mine()) is response


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"logprob": -1}, {"logprob": -1.0}),
        ({"logprob": np.float64(-1.5)}, {"logprob": -1.5}),
        ({"logprob": np.float32(-1.5)}, {"logprob": -1.5}),
        ({"logprob": np.float16(-1.5)}, {"logprob": -1.5}),
        ({"logprob": np.int64(-2)}, {"logprob": -2.0}),
        ({"logprob": Fraction(-1, 2)}, {"logprob": -0.5}),
        ({"greedy": np.True_}, {"greedy": True}),
        ({"n_tokens": np.int32(3)}, {"n_tokens": 3}),
        ({"elapsed_s": np.float32(0.5)}, {"elapsed_s": 0.5}),
        ({"text": np.str_("yes")}, {"text": "yes"}),
        ({"elapsed_s": -3600.0}, {"elapsed_s": 0.0}),
    ],
)
def test_numbers_of_other_types_become_plain_ones(given, plain):
    base = {"logprob": -1.0, "greedy": False}
    found = checked_response(SCORE, Response(**(base | given)), Mine())
    assert found == Response(**(base | plain))
    for name, value in plain.items():
        assert type(getattr(found, name)) is type(value)


def test_steps_become_plain_json_values():
    given = [{"tool": "search", "args": ("a", 1)}, {"api_key": "sk-1234567890"}]
    found = checked_response(WRITE, Response(text="yes", steps=given), Mine())
    plain = ({"tool": "search", "args": ["a", 1]}, {"api_key": "sk-1234567890"})
    assert found == Response(text="yes", steps=plain)


def test_an_error_keeps_the_steps_before_it():
    given = Response(error="no more steps", steps=({"tool": "search"},))
    assert checked_response(WRITE, given, Mine()) == given


A_LOGPROB = "a log-probability: a number of at most 0, in nats"
TOP_TOKENS = "one (token, ((token, log-probability), …)) for each generated token"
A_COUNT = "a whole number, 0 or more"
A_LIST_OF_STEPS = "a list of mappings of JSON values"


@pytest.mark.parametrize(
    ("field", "value", "shown", "expected"),
    [
        ("logprob", math.inf, "inf", A_LOGPROB),
        ("logprob", math.nan, "nan", A_LOGPROB),
        ("logprob", 5.0, "5.0", A_LOGPROB),
        ("logprob", 0.01, "0.01", A_LOGPROB),
        ("logprob", True, "True", A_LOGPROB),
        ("logprob", False, "False", A_LOGPROB),
        ("logprob", "-1.0", "'-1.0' (str)", A_LOGPROB),
        ("logprob", -1 + 0j, "(-1+0j) (complex)", A_LOGPROB),
        ("logprob", [-1.0], "[-1.0] (list)", A_LOGPROB),
        ("logprob", -(10**400), f"-1{'0' * 58}… (int)", A_LOGPROB),
        ("logprob", np.float64("nan"), f"{np.float64('nan')!r}", A_LOGPROB),
        ("logprob", np.array([-1.0]), "array([-1.]) (ndarray)", A_LOGPROB),
        ("logprob", Odd(), "? (Odd)", A_LOGPROB),
        ("top_logprobs", [("a", {"a": 3})], "[('a', {'a': 3})] (list)", TOP_TOKENS),
        (
            "top_logprobs",
            [("a", {"a": True})],
            "[('a', {'a': True})] (list)",
            TOP_TOKENS,
        ),
        ("greedy", 1, "1 (int)", "True, False or None"),
        ("greedy", "no", "'no' (str)", "True, False or None"),
        ("text", b"yes", "b'yes' (bytes)", "a str"),
        ("text", None, "None", "a str"),
        ("text", ["yes"], "['yes'] (list)", "a str"),
        ("n_tokens", "3", "'3' (str)", A_COUNT),
        ("n_tokens", 3.0, "3.0", A_COUNT),
        ("n_tokens", True, "True", A_COUNT),
        ("n_tokens", None, "None", A_COUNT),
        ("n_prompt_tokens", -1, "-1 (int)", A_COUNT),
        ("n_truncated", 10**400, f"1{'0' * 59}… (int)", A_COUNT),
        ("finish", "eos", "'eos' (str)", "'', 'stop', 'length', 'refused' or 'unsent'"),
        ("finish", [], "[] (list)", "'', 'stop', 'length', 'refused' or 'unsent'"),
        ("finish", None, "None", "'', 'stop', 'length', 'refused' or 'unsent'"),
        ("elapsed_s", math.inf, "inf", "seconds: a finite number"),
        ("elapsed_s", "1", "'1' (str)", "seconds: a finite number"),
        ("error", ValueError("x"), "ValueError('x') (ValueError)", "a str"),
        ("error", None, "None", "a str"),
        ("steps", "search", "'search' (str)", A_LIST_OF_STEPS),
        ("steps", ["search"], "['search'] (list)", A_LIST_OF_STEPS),
        ("steps", {"tool": "search"}, "{'tool': 'search'} (dict)", A_LIST_OF_STEPS),
        ("steps", [{"p": math.nan}], "[{'p': nan}] (list)", A_LIST_OF_STEPS),
        (
            "steps",
            [{"p": {1}}],
            "[{'p': {1}}] (list)",
            f"{A_LIST_OF_STEPS}, and a set in it is not a JSON value",
        ),
    ],
)
def test_an_invalid_value_is_an_error_that_names_it(field, value, shown, expected):
    for request, base in (
        (SCORE, {"logprob": -1.0, "greedy": True}),
        (WRITE, {"text": "yes"}),
    ):
        found = checked_response(request, Response(**(base | {field: value})), Mine())
        why = f"Mine 'mine': answer() gave {field}={shown}; expected {expected}"
        assert found == Response(error=why)


@pytest.mark.parametrize(
    ("request_", "given", "what"),
    [
        (WRITE, None, "None instead of a Response"),
        (WRITE, "yes", "'yes' (str) instead of a Response"),
        (WRITE, {"text": "yes"}, "{'text': 'yes'} (dict) instead of a Response"),
        (
            WRITE,
            Response(logprob=-1.0, greedy=True),
            "a log-probability and no text for a request to generate",
        ),
        (
            SCORE,
            Response(text="yes"),
            "no log-probability for a request of kind 'loglikelihood'",
        ),
        (
            PERPLEXITY,
            Response(),
            "no log-probability for a request of kind 'loglikelihood_rolling'",
        ),
    ],
)
def test_a_response_to_another_kind_of_request_is_an_error(request_, given, what):
    found = checked_response(request_, given, Mine())
    assert found == Response(error=f"Mine 'mine': answer() gave {what}")


YES = Response(text="yes")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (None, "answer() returned None"),
        (7, "answer() returned 7 (int)"),
        ([YES], "answer() gave Response(text='yes', logprob=None, greedy=None, n_pro"),
        ([("0", YES)], "answer() gave ('0', Response(text='yes', "),
        ([(0, YES, 1)], "answer() gave (0, Response(text='yes', "),
        ([(0, YES), (1, YES), (2, YES)], "answer() gave position 2 of 2 requests"),
        ([(0, YES), (0, YES)], "answer() gave position 0 of 2 requests"),
        ([(-1, YES)], "answer() gave position -1 of 2 requests"),
    ],
)
def test_positions_that_do_not_fit_the_requests_are_an_error_of_the_batch(given, what):
    with pytest.raises(ModelError) as info:
        [*responses_of([WRITE, WRITE], Mine(given))]
    assert str(info.value).startswith(f"mine: {what}")
    assert str(info.value).endswith(
        "\n  fix: yield (position in requests, Response) once for each request"
    )


def test_one_invalid_response_leaves_the_others_alone():
    given = [(1, None), (0, YES)]
    found = [*responses_of([WRITE, WRITE], Mine(given))]
    assert found[1] == (0, YES)
    assert found[0][1].error == "Mine 'mine': answer() gave None instead of a Response"


@pytest.mark.parametrize(
    ("field", "value", "shown", "fix"),
    [
        ("name", 7, "7 (int)", 'a str, such as name = "my-model"'),
        ("name", None, "None", 'a str, such as name = "my-model"'),
        ("name", "", "'' (str)", 'a str, such as name = "my-model"'),
        ("info", 7, "7 (int)", "a mapping of JSON values"),
        ("info", [("a", 1)], "[('a', 1)] (list)", "a mapping of JSON values"),
        ("notes", "late", "'late' (str)", "a list or a tuple of str"),
        ("notes", None, "None", "a list or a tuple of str"),
    ],
)
def test_a_model_that_describes_itself_wrongly_is_refused(field, value, shown, fix):
    model = Mine()
    setattr(model, field, value)
    with pytest.raises(ModelError) as info:
        as_model(model, "a test")
    assert str(info.value) == (
        f"the model Mine: its {field} is {shown}\n  fix: use {fix}"
    )


def test_a_model_may_change_the_list_of_its_requests():
    class Emptying(Mine):
        def answer(self, requests):
            taken = [*requests]
            requests.clear()
            return [(n, Response(text="yes")) for n in range(len(taken))]

    requests = [WRITE, Generate("Say no.")]
    answered = dict(responses_of(requests, Emptying()))
    assert [answered[n].text for n in (0, 1)] == ["yes", "yes"]
    assert len(requests) == 2
