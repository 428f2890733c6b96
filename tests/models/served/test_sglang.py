"""SGLang's ``/generate``, in the request and reply shapes of the sources of SGLang
0.5.23 (``api/v1/api_types.py``, ``io_struct.py``, ``tokenizer_manager.py``). The oracle
is a plain pass of torch; no real SGLang server is run."""

from __future__ import annotations

import pytest

from pytest_evals.core.request import Loglikelihood, Rolling

CONTEXTS = ["the cat sat on the", "hello", "Question? Answer:"]
REQUESTS = [
    *(Loglikelihood(c, end) for c in CONTEXTS for end in (" the", " and", "\n")),
    *(Loglikelihood(c, end) for c in CONTEXTS for end in (" the mat.", " and so on")),
    Loglikelihood("", "sat on the mat"),
]
LONG = [one for one in REQUESTS if len(one.continuation.split()) > 1]


class SGLang:
    """A server whose completions score whole prompts, and whose ``/generate`` scores
    the tokens from ``logprob_start_len`` on.

    Args:
        plain: Its completions.
        shift: Added to the log-probabilities of ``/generate``.
        change: Changes the reply of ``/generate``.
    """

    def __init__(self, plain, shift=0.0, change=lambda reply: reply):
        self.plain, self.shift, self.change = plain, shift, change
        self.asked = []

    def __call__(self, path, body):
        if path != "/generate":
            return self.plain(path, body)
        ids, start = body["input_ids"], body.get("logprob_start_len", -1)
        assert body["sampling_params"] == {"temperature": 0, "max_new_tokens": 1}
        assert body["return_logprob"]
        assert body["model"] == "tiny"  # ignored by SGLang, read by gateways
        self.asked.append(body)
        rows = self.plain.shares(ids) + self.shift
        best = rows.argmax(-1).tolist()
        meta = {
            "id": "1",
            "finish_reason": {"type": "length", "length": 1},
            "prompt_tokens": len(ids),
            "completion_tokens": 1,
            "cached_tokens": 0,
            "output_token_logprobs": [[float(rows[-1, best[-1]]), best[-1], None]],
            "input_token_logprobs": [],
        }
        if start >= 0:
            meta["input_token_logprobs"] = [
                [float(rows[n - 1, ids[n]]) if n > start else None, ids[n], None]
                for n in range(start, len(ids))
            ]
            meta["input_top_logprobs"] = [None] + [
                [[float(rows[n, best[n]]), best[n], None]]
                for n in range(start, len(ids) - 1)
            ]
        if "token_ids_logprob" in body:
            chosen = body["token_ids_logprob"]
            meta["output_token_ids_logprobs"] = [
                [[float(rows[-1, i]), i, None] for i in chosen]
            ]
        return self.change({"text": "", "output_ids": [best[-1]], "meta_info": meta})


@pytest.fixture
def plain(tiny):
    """A server that scores whole prompts only."""
    return tiny("gpt2", "sglang")


def test_only_the_tokens_of_the_continuation_are_scored(
    served, by_ids, plain, ask, check
):
    served.reply = server = SGLang(plain)
    check(ask(by_ids, *REQUESTS), REQUESTS)
    assert by_ids.info["loglikelihoods"] == (
        "echo + logprob_start_len + token_ids_logprob"
    )
    starts = [body for body in server.asked[2:] if "logprob_start_len" in body]
    ends = {len(one["input_ids"]) - one["logprob_start_len"] for one in starts}
    assert max(ends) < max(len(one["input_ids"]) for one in starts)
    assert len(starts) == len(LONG)
    # All one-token choices of a context share a request.
    selections = [body for body in server.asked if "token_ids_logprob" in body]
    assert len(selections) == 1 + len(CONTEXTS)
    usage = by_ids.info["usage"]
    assert usage["prompt_tokens"] > 0 and usage["completion_tokens"] > 0


def test_rolling_log_likelihoods_are_those_of_whole_prompts(
    served, by_ids, model_of, plain, ask, saved_model
):
    text = Rolling("the cat sat on the mat and the dog " * 4)
    served.reply = SGLang(plain)
    (found,) = ask(by_ids, text)
    served.reply = plain
    other = model_of(tokenizer=saved_model("gpt2"))
    (expected,) = ask(other, text)
    assert other.info["loglikelihoods"] == "echo"
    assert found.logprob == pytest.approx(expected.logprob, abs=1e-5)
    assert found.n_tokens == expected.n_tokens


def without(name):
    def change(reply):
        del reply["meta_info"][name]
        return reply

    return change


def other_ids(reply):
    for row in reply["meta_info"]["input_token_logprobs"]:
        row[1] += 1
    return reply


def all_greedy(reply):
    tokens = reply["meta_info"]["input_token_logprobs"]
    reply["meta_info"]["input_top_logprobs"] = [[row] for row in tokens]
    return reply


@pytest.mark.parametrize(
    "faults",
    [
        {"shift": 0.5},
        {"shift": -3.0},
        {"change": without("input_token_logprobs")},
        {"change": without("input_top_logprobs")},
        {"change": lambda reply: {"text": ""}},
        {"change": lambda reply: {"error": {"message": "not supported"}}},
        {"change": other_ids},
        {"change": all_greedy},
    ],
)
def test_a_server_with_another_generate_scores_whole_prompts(
    served, by_ids, plain, ask, check, faults
):
    served.reply = SGLang(plain, **faults)
    check(ask(by_ids, *REQUESTS), REQUESTS)
    assert by_ids.info["loglikelihoods"] == "echo"


def test_a_server_without_selected_tokens_scores_the_ends_of_prompts(
    served, by_ids, plain, ask, check
):
    def change(reply):
        reply["meta_info"].pop("output_token_ids_logprobs", None)
        return reply

    served.reply = SGLang(plain, change=change)
    check(ask(by_ids, *REQUESTS), REQUESTS)
    assert by_ids.info["loglikelihoods"] == "echo + logprob_start_len"


def test_requests_with_parameters_of_completions_stay_completions(
    served, model_of, plain, ask, check, saved_model
):
    served.reply = server = SGLang(plain)
    model = model_of(tokenizer=saved_model("gpt2"), extra_body='{"lora_path": "a"}')
    check(ask(model, *REQUESTS), REQUESTS)
    assert not server.asked


def test_a_token_above_the_most_likely_one_is_an_error(served, by_ids, plain, ask):
    served.reply = server = SGLang(plain)
    ask(by_ids, REQUESTS[0])

    def change(reply):
        reply["meta_info"]["input_token_logprobs"][-1][0] = 0.0
        return reply

    server.change = change
    (found,) = ask(by_ids, LONG[0])
    assert "for the most likely one" in found.error


def test_choices_after_a_context_that_the_server_cuts_are_errors(
    served, by_ids, plain, ask
):
    server = SGLang(plain)

    def cutting(path, body):
        if path == "/generate" and len(body["input_ids"]) > 50:
            body = {**body, "input_ids": body["input_ids"][:50]}
        return server(path, body)

    served.reply = cutting
    context = "the cat sat on" + " the mat" * 40
    found = ask(by_ids, *(Loglikelihood(context, end) for end in (" the", " mat. So")))
    assert ["it read 50 tokens where" in one.error for one in found] == [True, True]


def test_a_token_without_log_probability_is_an_error_of_its_document(
    served, by_ids, plain, ask
):
    served.reply = server = SGLang(plain)
    ask(by_ids, REQUESTS[0])

    def change(reply):
        for row in reply["meta_info"]["input_token_logprobs"][1:]:
            row[0] = None
        return reply

    server.change = change
    (found,) = ask(by_ids, LONG[0])
    assert "gives no log-probability" in found.error
