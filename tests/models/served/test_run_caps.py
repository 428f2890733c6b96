"""Caps of a run: the tested model, judges and simulated users count together."""

from __future__ import annotations

import json

import pytest

import pytest_evals as ev
from pytest_evals import OptionError, evaluate
from pytest_evals.core.record import Status

PRICES = "price_in=100,price_out=1000"
COST = (7 * 100 + 3 * 1000) / 1e6
"""Of each reply: 7 and 3 tokens."""


@pytest.fixture
def specs(served):
    """The specs of a tested model and a judge at one server."""

    def reply(path, body):
        text = body["messages"][-1]["content"]
        said = json.dumps({"reason": "", "pass": True}) if "rubric" in text else "hi"
        choice = {"message": {"role": "assistant", "content": said}}
        choice |= {"index": 0, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        return {"choices": [choice], "usage": usage}

    served.reply = reply
    end = f"api=chat,base_url={served.url},max_retries=0,concurrency=1"
    return [f"openai:{name},{end},{PRICES}" for name in ("bot", "judge")]


def run(specs, n=6, **caps):
    rows = [{"prompt": f"row {i}"} for i in range(n)]
    scorer = ev.judge("Good?", model=specs[1])
    generation = {"max_tokens": 3}

    @ev.eval(score=[scorer], generation=generation)
    def bot():
        yield from rows

    return evaluate(bot, specs[0], **caps)


def scored(result):
    return [one.status for one in result.tasks[0].records].count(Status.SCORED)


@pytest.mark.slow
def test_requests_of_all_models_count_together(served, specs):
    result = run(specs, max_requests=8)
    assert len(served.bodies) == 8  # six answers, two ratings
    assert scored(result) == 2
    assert "spend cap of the run reached: max_requests=8" in result.partial


def test_caps_hold_for_functions_and_for_several_models_together():
    called = []

    def bot(prompt):
        called.append(prompt)
        return {"text": "hi", "cost": 0.25}

    def grader(prompt):
        called.append(prompt)
        return '{"reason": "", "pass": true}'

    rows = [{"prompt": f"row {n}"} for n in range(6)]
    scorer = ev.judge("Good?")
    result = evaluate(rows, bot, score=[scorer], judge=grader, max_requests=8)
    assert len(called) == 8
    assert scored(result) == 2
    called.clear()
    both = evaluate(rows, {"a": bot, "b": bot}, score="exact", max_requests=8)
    assert len(called) == 8
    assert "max_requests=8" in both["b"].partial
    many = [{"prompt": f"row {n}"} for n in range(100)]
    assert "max_cost=1" in evaluate(many, bot, score="exact", max_cost=1.0).partial


@pytest.mark.slow
def test_costs_of_all_models_count_together(served, specs):
    whole = run(specs, n=2)
    assert scored(whole) == 2 and len(served.bodies) == 4
    # A rating may cost 1.024 and more, for 1,024 tokens: it fits no longer once the
    # answers of the other model have been paid.
    generous = run(specs, n=2, max_cost=1.4)
    assert scored(generous) == 2
    served.bodies.clear()
    result = run(specs, n=6, max_cost=0.06)
    assert "spend cap of the run reached: max_cost=0.06" in result.partial
    assert len(served.bodies) * COST <= 0.06
    assert scored(result) == 0


def test_nothing_is_sent_to_a_model_whose_prices_are_unknown(served, specs):
    bare = [one.replace(f",{PRICES}", "") for one in specs]
    with pytest.raises(OptionError, match="the prices of bot are unknown"):
        run(bare, max_cost=1)
    assert served.bodies == []


def test_costs_that_an_application_reports_count(specs):
    calls = []

    def respond(prompt):
        calls.append(prompt)
        return ev.Response(text="hi", cost=0.4)

    rows = [{"prompt": f"row {i}", "target": "hi"} for i in range(6)]
    result = evaluate(rows, respond, score="exact", max_cost=1)
    # One call is sent first, since nothing is known of costs; others are concurrent.
    assert len(calls) >= 3
    assert (result.partial == "") == (len(calls) == 6)


@pytest.mark.parametrize("caps", [{"max_requests": -1}, {"max_cost": float("inf")}])
def test_caps_are_checked(caps):
    with pytest.raises(OptionError, match="0 for no maximum"):
        evaluate([{"prompt": "a", "target": "a"}], "scripted:echo", **caps)
