"""Spend caps: the number of requests that a server receives, with failures and
concurrency. The server counts them itself."""

from __future__ import annotations

import json
from threading import Timer

import pytest

from pytest_evals.core.request import Generate
from pytest_evals.errors import OptionError
from pytest_evals.models.http.spend_cap import Ledger
from pytest_evals.models.openai.settings import read_settings
from pytest_evals.models.registry import fingerprint_of, parse_spec

PRICES = {"price_in": 100, "price_out": 1000}
"""Per million tokens; a reply of the server has 7 and 3."""
COST = (7 * 100 + 3 * 1000) / 1e6


@pytest.fixture(autouse=True)
def _a_new_run():
    Ledger.begin_run()


def many(n, **fields):
    return [Generate(f"Q{i}:", **fields) for i in range(n)]


def counts(found):
    return [bool(r.text) for r in found].count(True), [r.finish for r in found].count(
        "unsent"
    )


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 7, 32])
def test_no_request_beyond_the_cap_is_sent_and_those_in_flight_are_answered(
    served, model_of, ask, fault, concurrency
):
    served.fault = lambda body: fault(
        body=served.reply("completions", body), slow_s=0.02
    )
    found = ask(model_of(max_requests=10, concurrency=concurrency), *many(40))
    assert len(served.bodies) == 10
    assert counts(found) == (10, 30)
    assert {r.error for r in found if r.error} == {
        "spend cap of tiny reached: max_requests=10"
    }


@pytest.mark.slow
def test_retries_count_as_requests(served, model_of, ask, fault):
    served.faults.extend([fault(500, "{}"), None] * 3)
    found = ask(model_of(max_requests=9, concurrency=1), *many(20))
    assert len(served.bodies) == 9
    assert counts(found) == (6, 14)


def test_a_retry_that_a_cap_holds_back_does_not_count_as_a_retry(
    served, model_of, ask, fault
):
    served.faults.extend([fault(500, "{}")] * 4)
    model = model_of(max_requests=4, concurrency=1)
    ask(model, *many(1))
    assert len(served.bodies) == 4
    usage = model.info["usage"]
    assert (usage["requests"], usage["retries"]) == (4, 3)
    assert usage["retried"] == {"500": 3}


def test_repeats_of_a_prompt_count_as_requests(served, model_of, ask):
    sampled = [Generate("Q:", temperature=1.0, repeat=n) for n in range(8)]
    assert counts(ask(model_of(max_requests=5), *sampled)) == (5, 3)
    assert len(served.bodies) == 5


def test_later_batches_send_nothing_once_the_cap_is_reached(served, model_of, ask):
    model = model_of(max_requests=3)
    ask(model, *many(4))
    assert counts(ask(model, *many(5))) == (0, 5)
    assert len(served.bodies) == 3


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 32])
@pytest.mark.parametrize("max_tokens", [3, 100])
def test_the_cost_of_all_replies_stays_below_the_cap(
    served, model_of, ask, fault, concurrency, max_tokens
):
    """This holds with a token limit far above the length of the responses too."""
    served.fault = lambda body: fault(
        body=served.reply("completions", body), slow_s=0.01
    )
    cap = 0.2
    model = model_of(max_cost=cap, concurrency=concurrency, **PRICES)
    found = ask(model, *many(200, max_tokens=max_tokens))
    n = len(served.bodies)
    highest = (100 * 100 + max_tokens * 1000) / 1e6
    assert cap - highest - COST < n * COST <= cap
    assert counts(found) == (n, 200 - n)
    assert model.info["usage"]["cost"] == pytest.approx(n * COST)
    errors = {r.error for r in found if r.error}
    assert len(errors) == 1
    assert errors.pop().startswith("spend cap of tiny reached: max_cost=0.2 (")


def test_a_server_that_reports_more_tokens_than_were_sent_stays_below_the_cap(
    served, model_of, ask, fault
):
    """One with a long prompt in front."""
    usage = {"prompt_tokens": 5000, "completion_tokens": 0}
    choice = {"text": "a", "finish_reason": "stop"}
    reply = fault(body={"choices": [choice], "usage": usage}, slow_s=0.01)
    served.fault = lambda body: reply
    ask(model_of(max_cost=4.9, concurrency=32, **PRICES), *many(40, max_tokens=1))
    assert len(served.bodies) == 9  # of 0.5 each


def test_lost_replies_and_those_without_counts_count_at_their_highest_cost(
    served, model_of, ask, fault
):
    choice = {"text": "a", "finish_reason": "stop"}
    served.reply = lambda path, body: {"choices": [choice]}
    highest = 100 * 1000 / 1e6  # of the generation only
    ask(model_of(max_cost=4 * highest, **PRICES), *many(40, max_tokens=100))
    assert len(served.bodies) == 3


@pytest.mark.slow
def test_replies_without_token_counts_are_requests_of_unknown_cost(
    served, model_of, ask
):
    choice = {"text": "a", "finish_reason": "stop"}
    usages = iter(
        [
            {"prompt_tokens": 7, "completion_tokens": 3},
            {"prompt_tokens": -7, "completion_tokens": -3},
            {"prompt_tokens": "7", "completion_tokens": 3},
            {"prompt_tokens": 0, "completion_tokens": 0},
            {"prompt_tokens": 7},
            {"total_tokens": 10},
            None,
        ]
    )
    served.reply = lambda path, body: {"choices": [choice], "usage": next(usages)}
    model = model_of(concurrency=1, **PRICES)
    found = ask(model, *many(7))
    assert [response.cost for response in found] == [COST] + 6 * [None]
    assert model.info["usage"]["requests_of_unknown_cost"] == 6


def test_failed_requests_are_of_unknown_cost_unless_the_server_rejects_them(
    served, model_of, ask, fault
):
    served.faults.extend([fault(503, "{}"), fault(429, "{}"), fault(cut=True)])
    model = model_of(concurrency=1, max_retries=5, **PRICES)
    (response,) = ask(model, *many(1))
    assert response.text
    assert model.info["usage"]["requests_of_unknown_cost"] == 2
    assert model.info["usage"]["cost"] == pytest.approx(COST)


@pytest.mark.parametrize("price", [0.1, 0.3, 7, 123.457, 999999])
def test_a_request_that_may_cost_exactly_the_cap_is_sent(served, model_of, ask, price):
    cap = 10 * price / 1e6
    found = ask(model_of(max_cost=cap, price_out=price), *many(3, max_tokens=10))
    assert [bool(response.text) for response in found] == [True, False, False]


def test_a_cap_below_the_cost_of_one_request_is_reported_with_the_fix(
    served, model_of, ask
):
    model = model_of(max_cost=0.01, price_out=1000)
    (response,) = ask(model, *many(1, max_tokens=20))
    assert served.bodies == []
    assert response.error == (
        "spend cap of tiny reached: max_cost=0.01 (0 is spent, and the next request "
        "may cost 0.02; raise max_cost, or lower max_gen_toks)"
    )


@pytest.mark.slow
def test_a_cap_waits_for_the_real_cost_of_another_process(
    served, model_of, ask, fault, tmp_path
):
    """Its request in flight may cost the whole cap, and costs nothing in the end."""
    path = str(tmp_path / "spent")
    Ledger.begin_run(path)
    model = model_of(max_cost=0.02, price_out=1000)
    other = Ledger(path)
    limits = (100, 20_000_000_000)
    assert other.take(model.name, limits[1], limits) == limits[1]
    end = Timer(0.5, other.settle, (model.name, limits[1], 0, 0.0))
    end.start()
    (response,) = ask(model, *many(1, max_tokens=20))
    end.join()
    assert response.text
    assert other.spent(model.name)[:3] == (2, 3_000_000_000, 0)


@pytest.mark.slow
def test_a_rejected_request_costs_nothing(served, model_of, ask, fault):
    busy = fault(429, "{}", {"retry-after-ms": "1"})
    served.faults.extend([busy] * 20)
    model = model_of(max_cost=0.2, concurrency=1, max_retries=30, **PRICES)
    ask(model, *many(100, max_tokens=3))
    highest = (100 * 100 + 3 * 1000) / 1e6
    assert 0.2 - highest - COST < (len(served.bodies) - 20) * COST <= 0.2


def test_models_of_one_spec_share_a_cap_in_a_run(served, model_of, ask):
    ask(model_of(max_requests=6), *many(4))
    assert counts(ask(model_of(max_requests=6), *many(4))) == (2, 2)
    Ledger.begin_run()
    assert counts(ask(model_of(max_requests=6), *many(4))) == (4, 0)


def test_processes_share_a_cap_by_a_file(tmp_path):
    path = str(tmp_path / "spent")
    ledgers = [Ledger(path), Ledger(path)]
    for ledger in ledgers:
        ledger.open("m")
    taken = [ledgers[i % 2].take("m", 10, (100, 55)) for i in range(8)]
    assert taken == [10] * 5 + [-1] * 3
    assert ledgers[1].spent("m") == (5, 0, 50, 1.0)
    ledgers[0].settle("m", 10, 0, 0.0)
    assert [one.take("m", 10, (100, 55)) for one in ledgers] == [10, -1]


def test_a_cap_does_not_change_stored_responses():
    def key(arguments: str) -> str:
        spec = parse_spec(f"openai:m,base_url=http://localhost:1/v1{arguments}")
        return json.dumps(fingerprint_of(spec, str), default=str)

    assert key("") == key(",max_requests=3,price_in=1,max_cost=2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("max_requests=0", "max_requests is '0'; write a whole number from 1"),
        ("max_requests=many", "max_requests is 'many'"),
        ("max_requests=-3", "max_requests is '-3'"),
        ("max_requests=1.5", "max_requests is '1.5'"),
        ("max_cost=1", "takes max_cost only with prices\n  fix: add price_in= and"),
        ("max_cost=1,price_in=0,price_out=0", "takes max_cost only with prices"),
        ("max_cost=0,price_in=1", "max_cost is '0'; write a number above 0"),
        ("max_cost=-1,price_in=1", "max_cost is '-1'"),
        ("max_cost=nan,price_in=1", "max_cost is 'nan'"),
        ("max_cost=inf,price_in=1", "max_cost is 'inf'"),
        ("max_cost=5$,price_in=1", "max_cost is '5$'"),
        ("max_costs=5", "takes no argument 'max_costs'; did you mean 'max_cost'?"),
    ],
)
def test_an_invalid_cap_is_an_error_that_names_it(arguments, words):
    with pytest.raises(OptionError) as caught:
        read_settings(parse_spec(f"openai:m,{arguments}"))
    assert words in str(caught.value)


@pytest.mark.parametrize("price", ["1e308", "1000001", "-1", "nan", "inf", "free"])
def test_an_impossible_price_is_an_option_error(price):
    with pytest.raises(OptionError, match=r"price_in is .*; write a number"):
        read_settings(parse_spec(f"openai:tiny,price_in={price},max_cost=1"))
