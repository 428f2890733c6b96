"""The bodies that a server is sent, and the interpretation of its replies."""

from __future__ import annotations

import json

import pytest

from pytest_evals.core.latency import with_latency
from pytest_evals.core.request import FITTING, IMAGES, LEADING_IMAGES, Generate, Message

CHAT = (Message("system", "Be brief."), Message("user", "Hi?"))


def sent(served, model, ask, request):
    (response,) = ask(model, request)
    (path, body) = served.bodies[-1]
    return path, body, response


def test_a_text_goes_to_completions(served, model_of, ask):
    request = Generate("Q:", stop=("\n", "Q:"), max_tokens=5)
    path, body, response = sent(served, model_of(), ask, request)
    assert path == "/v1/completions"
    assert body == {
        "model": "tiny",
        "prompt": "Q:",
        "max_tokens": 5,
        "temperature": 0.0,
        "stop": ["\n", "Q:"],
    }
    assert response.text == "said "


def test_a_chat_goes_to_chat_completions(served, model_of, ask):
    path, body, response = sent(served, model_of(), ask, Generate(CHAT, max_tokens=5))
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi?"},
        ],
        "max_tokens": 5,
        "temperature": 0.0,
    }
    assert response.text == "said Hi?"


def test_a_limit_of_tokens_is_sent_without_our_option_for_fitting(
    served, model_of, ask
):
    request = Generate(CHAT, max_tokens=9, options=((FITTING, True),))
    _, body, _ = sent(served, model_of(), ask, request)
    assert body["max_tokens"] == 9 and "fitting" not in body


def test_images_are_parts_of_the_last_message(served, model_of, ask):
    """As in OpenAI's API reference, "Images and vision"."""
    url = "data:image/png;base64,AAAA"
    request = Generate(CHAT, options=((IMAGES, (url,)),))
    _, body, _ = sent(served, model_of(), ask, request)
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Hi?"},
                {"type": "image_url", "image_url": {"url": url}},
            ],
        },
    ]
    assert "images" not in body


def test_images_are_shown_in_a_chat_only(served, model_of, ask):
    url = "data:image/png;base64,AAAA"
    request = Generate("Q:", options=((IMAGES, (url,)),))
    path, body, _ = sent(served, model_of(), ask, request)
    assert path == "/v1/chat/completions"
    assert body["messages"][0]["content"][0] == {"type": "text", "text": "Q:"}
    (response,) = ask(model_of(api="completions"), request)
    assert response.error == "images are sent in a chat only: give api=chat"


def test_leading_images_are_put_before_the_last_user_message(served, model_of, ask):
    """A started assistant message stays a text."""
    url = "data:image/png;base64,AAAA"
    begun = (*CHAT, Message("assistant", "It is"))
    request = Generate(begun, options=((LEADING_IMAGES, (url,)),))
    _, body, _ = sent(served, model_of(), ask, request)
    shown = {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}
    assert body["messages"][1:] == [
        {"role": "user", "content": [shown, {"type": "text", "text": "Hi?"}]},
        {"role": "assistant", "content": "It is"},
    ]
    none = Generate(CHAT, options=((LEADING_IMAGES, ()),))
    _, body, _ = sent(served, model_of(), ask, none)
    assert body["messages"][1] == {"role": "user", "content": "Hi?"}


def test_with_api_chat_a_text_is_the_user_message(served, model_of, ask):
    path, body, _ = sent(served, model_of(api="chat"), ask, Generate("Q:"))
    assert path == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "Q:"}]


def test_with_api_completions_a_chat_is_an_error(served, model_of, ask):
    (found,) = ask(model_of(api="completions"), Generate(CHAT))
    assert found.error == "the prompt is a chat, and api=completions takes texts only"
    assert served.bodies == []


def test_a_begun_answer_is_gone_on_with(served, model_of, ask):
    chat = (*CHAT, Message("assistant", "Well,"))
    _, body, _ = sent(served, model_of(), ask, Generate(chat))
    assert body["messages"][-1] == {"role": "assistant", "content": "Well,"}
    assert body["add_generation_prompt"] is False
    assert body["continue_final_message"] is True


def test_at_most_four_stop_strings_are_sent_and_the_rest_is_cut_here(
    served, model_of, ask
):
    served.reply = lambda path, body: {
        "choices": [{"text": "one two six seven", "finish_reason": "length"}]
    }
    request = Generate("Q:", stop=("a", "b", "c", "d", "six"))
    _, body, response = sent(served, model_of(), ask, request)
    assert body["stop"] == ["a", "b", "c", "d"]
    assert (response.text, response.finish) == ("one two ", "stop")
    _, body, _ = sent(served, model_of(max_stops=9), ask, request)
    assert len(body["stop"]) == 5


def test_a_stop_string_that_another_makes_needless_is_not_sent(served, model_of, ask):
    request = Generate("Q:", stop=("\n\n", "\n", "\nQ", "\n"))
    _, body, _ = sent(served, model_of(), ask, request)
    assert body["stop"] == ["\n"]


def test_a_stop_string_that_the_server_leaves_in_the_text_is_cut(served, model_of, ask):
    served.reply = lambda path, body: {
        "choices": [{"text": "yes\nQ: more", "finish_reason": "stop"}]
    }
    (found,) = ask(model_of(), Generate("Q:", stop=("Q:", "\n")))
    assert (found.text, found.finish) == ("yes", "stop")


@pytest.mark.parametrize(
    ("word", "finish"), [("stop", "stop"), ("length", "length"), (None, ""), ("x", "")]
)
def test_the_reason_why_a_text_ended(served, model_of, ask, word, finish):
    served.reply = lambda path, body: {
        "choices": [{"text": "a", "finish_reason": word}]
    }
    (found,) = ask(model_of(), Generate("Q:"))
    assert (found.text, found.finish) == ("a", finish)


def test_a_sampled_text_has_a_seed_of_its_own(served, model_of, ask):
    model = model_of()
    requests = [Generate("Q:", temperature=0.7, repeat=n) for n in range(3)]
    ask(model, *requests)
    ask(model, *requests)
    seeds = [body["seed"] for _, body in served.bodies]
    assert sorted(seeds[:3]) == sorted(seeds[3:])
    assert len(set(seeds)) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_given_seed_is_that_of_the_first_repeat(served, model_of, ask):
    options = (("seed", 40),)
    ask(
        model_of(concurrency=1),
        *(Generate("Q:", temperature=1, options=options, repeat=n) for n in range(3)),
    )
    assert [body["seed"] for _, body in served.bodies] == [40, 41, 42]


def test_seeds_can_be_left_out(served, model_of, ask):
    request = Generate("Q:", temperature=1.0)
    _, body, _ = sent(served, model_of(send_seed="false"), ask, request)
    assert "seed" not in body


def test_options_are_sent_as_they_are(served, model_of, ask):
    options = (
        ("min_p", 0.1),
        ("num_beams", 1),
        ("stop_token_ids", (1, 2)),
        ("top_p", 0.9),
    )
    request = Generate("Q:", temperature=1.0, options=options)
    _, body, _ = sent(served, model_of(), ask, request)
    assert (body["min_p"], body["top_p"], body["stop_token_ids"]) == (0.1, 0.9, [1, 2])
    assert "num_beams" not in body


def test_a_form_for_the_answer_is_sent_as_the_object_that_it_is(served, model_of, ask):
    """Requests are hashed, so it is passed as text."""
    options = (("response_format", '{"type": "json_object"}'),)
    _, body, _ = sent(served, model_of(), ask, Generate("Q:", options=options))
    assert body["response_format"] == {"type": "json_object"}


def test_an_answer_is_held_to_a_schema_as_openai_has_it_or_to_an_expression_as_vllm(
    served, model_of, ask
):
    """platform.openai.com/docs/guides/structured-outputs; docs.vllm.ai, Structured
    Outputs."""
    schema = {"type": "object"}
    grammar = json.dumps({"type": "json", "value": schema})
    request = Generate("Q:", options=(("grammar", grammar),))
    _, body, _ = sent(served, model_of(), ask, request)
    form = body["response_format"]
    assert (form["type"], form["json_schema"]["schema"]) == ("json_schema", schema)
    grammar = json.dumps({"type": "regex", "value": "yes|no"})
    request = Generate("R:", options=(("grammar", grammar),))
    _, body, _ = sent(served, model_of(), ask, request)
    assert body["structured_outputs"] == {"regex": "yes|no"}


def test_an_unknown_option_is_an_error_of_its_document(served, model_of, ask):
    found = ask(
        model_of(),
        Generate("Q:", options=(("top_pp", 0.9),)),
        Generate("Q:", options=(("num_beams", 4),)),
        Generate("Q:"),
    )
    assert found[0].error.startswith(
        "the openai model has no generation option 'top_pp'; did you mean 'top_p'?"
    )
    assert "no generation option 'num_beams'" in found[1].error
    assert found[2].text == "said Q:"


def test_further_fields_of_requests(served, model_of, ask):
    extra = '{"chat_template_kwargs": {"enable_thinking": false}, "top_k": 1}'
    _, body, _ = sent(served, model_of(extra_body=extra), ask, Generate("Q:"))
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["top_k"] == 1


def test_reasoning_is_not_part_of_the_answer_and_not_stopped_by_strings(
    served, model_of, ask
):
    served.reply = lambda path, body: {
        "choices": [{"text": "so\n\nwell</think> 42\n\nrest", "finish_reason": "stop"}]
    }
    model = model_of(think_end_token="</think>")
    _, body, response = sent(served, model, ask, Generate("Q:", stop=("\n\n",)))
    assert "stop" not in body
    assert response.text == "42"


def test_a_model_that_thinks_first_gets_no_temperature_and_no_stop_strings(
    served, model_of, ask
):
    request = Generate(CHAT, stop=("Hi",), max_tokens=9)
    model = model_of(reasoning="true")
    _, body, response = sent(served, model, ask, request)
    assert {"model", "messages", "max_completion_tokens"} == set(body)
    assert response.text == "said "
    assert "takes no temperature" in model.notes[0]


@pytest.mark.slow
def test_usage_counts_requests_tokens_and_cost(served, model_of, ask):
    model = model_of(price_in=2, price_out=10)
    ask(model, *(Generate(f"Q{i}") for i in range(200)))
    assert with_latency(model.info)["usage"] == {
        "requests": 200,
        "replies": 200,
        "retries": 0,
        "prompt_tokens": 1400,
        "completion_tokens": 600,
        "cost": pytest.approx(0.0028 + 0.006),
    }


@pytest.mark.parametrize("count", [10**400, 2**53, -1, 1.5, "7", True, None])
def test_a_count_of_tokens_that_cannot_be_one_is_not_added_up(
    served, model_of, ask, count
):
    reply = {
        "choices": [{"index": 0, "finish_reason": "stop", "text": "yes"}],
        "usage": {"prompt_tokens": count, "completion_tokens": 3},
    }
    served.reply = lambda path, body: reply
    model = model_of(price_in=2, price_out=10)
    (response,) = ask(model, Generate("Q"))
    assert (response.text, response.error) == ("yes", "")
    assert (response.n_prompt_tokens, response.n_tokens) == (0, 3)
    assert model.info["usage"]["cost"] == pytest.approx(3 * 10 / 1e6)


@pytest.mark.slow
def test_each_answer_has_its_own_latency_and_cost(served, model_of, ask, fault):
    """Other requests that are sent at the same time, pauses and failed attempts are not
    part of its latency; its cost is 7 and 3 tokens at 2 and 10 per million."""
    served.faults.append(fault(503))
    served.fault = lambda body: fault(
        body=served.reply("completions", body), slow_s=0.2
    )
    model = model_of(price_in=2, price_out=10, concurrency=4)
    found = ask(model, *(Generate(f"Q{i}") for i in range(8)))
    assert all(0.2 <= one.latency_s < 0.45 for one in found)
    assert [one.cost for one in found] == [pytest.approx(44e-6)] * 8
    (free,) = ask(model_of(), Generate("Q"))
    assert free.cost is None


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 7}, {"completion_tokens": 3}]
)
def test_an_answer_whose_tokens_are_not_reported_has_no_cost(
    served, model_of, ask, usage
):
    choice = {"index": 0, "finish_reason": "stop", "text": "yes"}
    served.reply = lambda path, body: {"choices": [choice], "usage": usage}
    (response,) = ask(model_of(price_in=2, price_out=10), Generate("Q"))
    assert (response.text, response.cost) == ("yes", None)
