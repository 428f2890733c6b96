"""Choices of one token on a server that returns the log-probabilities of selected
tokens, as vLLM 0.32 does. The oracle is a plain pass of torch."""

from __future__ import annotations

import pytest

from pytest_evals.core.request import Generate, Loglikelihood

CONTEXTS = ["the cat sat on the", "hello", "Question? Answer:"]
REQUESTS = [
    *(Loglikelihood(c, end) for c in CONTEXTS for end in (" the", " and", "\n", " b")),
    Loglikelihood("the cat", " sat on the mat"),
    Loglikelihood("the cat sat on the ", "mat"),
]


class Selecting:
    """A server whose completions take ``logprob_token_ids``.

    Args:
        plain: The server without.
        shift: Added to the log-probabilities of selected tokens.
        refused: Its reply to that parameter instead.
        generated: The generated token in its replies; empty for the most likely one.
    """

    def __init__(self, plain, shift=0.0, refused=None, generated=""):
        self.plain, self.shift, self.refused = plain, shift, refused
        self.generated = generated
        self.asked = []

    def __call__(self, path, body):
        if "logprob_token_ids" not in body:
            return self.plain(path, body)
        if self.refused is not None:
            return self.refused
        self.asked.append(body)
        assert body["max_tokens"] == 1
        assert body["return_tokens_as_token_ids"]
        row = self.plain.shares(body["prompt"])[-1]
        best = int(row.argmax())
        top = {
            f"token_id:{i}": float(row[i]) + self.shift
            for i in (best, *body["logprob_token_ids"])
        }
        name = self.generated or f"token_id:{best}"
        top.setdefault(name, float(row.min()))
        found = {"tokens": [name], "top_logprobs": [top]}
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 1}
        return {"choices": [{"text": "", "logprobs": found}], "usage": usage}


@pytest.fixture
def plain(tiny):
    """A server that scores prompts only."""
    return tiny("gpt2", "vllm")


@pytest.mark.slow
def test_choices_of_a_context_are_one_request(served, by_ids, plain, ask, check):
    served.reply = server = Selecting(plain)
    found = ask(by_ids, *REQUESTS)
    check(found, REQUESTS)
    assert by_ids.info["loglikelihoods"] == "echo + logprob_token_ids"
    _, *asked = [body["prompt"] for body in server.asked]
    assert len({tuple(prompt) for prompt in asked}) == len(asked) < 6
    # Requests arrive in any order. The first context has four choices and " mat" of the
    # last request, whose context ends in a blank.
    n_choices = [
        len(body["logprob_token_ids"])
        for body in server.asked[1:]
        if len(body["prompt"]) == found[0].n_prompt_tokens
    ]
    assert 5 in n_choices
    assert found[0].n_tokens == 1


@pytest.mark.slow
def test_the_generated_token_is_the_greedy_one(served, by_ids, plain, ask, check):
    served.reply = Selecting(plain)
    prompts = [f"{context}{i}" for context in CONTEXTS for i in range(8)]
    texts = ask(by_ids, *(Generate(prompt, max_tokens=1) for prompt in prompts))
    requests = [
        Loglikelihood(prompt, text.text)
        for prompt, text in zip(prompts, texts, strict=True)
        if text.text.strip() and "\ufffd" not in text.text
    ]
    found = ask(by_ids, *requests)
    assert any(response.greedy and response.n_tokens == 1 for response in found)
    check(found, requests)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.5, -3.0])
def test_other_values_than_those_of_prompts_are_not_used(
    served, by_ids, plain, ask, check, shift
):
    served.reply = Selecting(plain, shift)
    check(ask(by_ids, *REQUESTS), REQUESTS)
    assert by_ids.info["loglikelihoods"] == "echo"


@pytest.mark.slow
def test_a_server_that_refuses_the_parameter_scores_prompts(
    served, by_ids, plain, ask, check, fault
):
    served.reply = Selecting(plain, refused=fault(422, {"error": "unknown field"}))
    check(ask(by_ids, *REQUESTS), REQUESTS)


@pytest.mark.slow
def test_a_server_that_ignores_the_parameter_scores_prompts(
    served, by_ids, plain, ask, check
):
    served.reply = plain
    check(ask(by_ids, *REQUESTS), REQUESTS)
    assert by_ids.info["loglikelihoods"] == "echo"


@pytest.mark.slow
def test_a_server_that_spells_the_generated_token_scores_prompts(
    served, by_ids, plain, ask, check
):
    served.reply = Selecting(plain, generated=" the")
    check(ask(by_ids, *REQUESTS), REQUESTS)
    assert by_ids.info["loglikelihoods"] == "echo"


@pytest.mark.slow
def test_a_generated_token_that_is_not_the_most_likely_one_is_an_error(
    served, by_ids, plain, ask
):
    """As with a penalty for repetitions, which the greedy flags would be wrong with."""
    served.reply = server = Selecting(plain)
    ask(by_ids, REQUESTS[0])
    server.generated = "token_id:0"
    found = ask(by_ids, *REQUESTS[:4], REQUESTS[-2])
    assert ["which it generated" in one.error for one in found] == [True] * 4 + [False]


@pytest.mark.slow
def test_a_failed_request_is_an_error_of_all_its_choices(
    served, by_ids, plain, ask, fault
):
    served.reply = Selecting(plain)
    ask(by_ids, REQUESTS[0])
    served.fault = lambda body: (
        fault(400, {"error": {"message": "no such token"}})
        if "logprob_token_ids" in body
        else None
    )
    found = ask(by_ids, *REQUESTS[:4], REQUESTS[-2])
    assert ["no such token" in one.error for one in found] == [True] * 4 + [False]


@pytest.mark.slow
def test_choices_after_a_context_that_the_server_cuts_are_errors(
    served, by_ids, plain, ask, check
):
    """The values are right for another context than the one that was sent."""
    server = Selecting(plain)

    def cutting(path, body):
        if len(body["prompt"]) > 50:
            body = {**body, "prompt": body["prompt"][-50:]}
        return server(path, body)

    served.reply = cutting
    long = Loglikelihood("the cat sat on" + " the mat" * 40, " the")
    found = ask(by_ids, long, *REQUESTS)
    check(found[1:], REQUESTS)
    assert "it read 50 tokens where" in found[0].error
    assert found[0].logprob is None


@pytest.mark.slow
def test_more_choices_than_a_request_takes_are_several(
    served, by_ids, plain, ask, check, monkeypatch
):
    monkeypatch.setattr("pytest_evals.models.openai.scoring.MOST", 3)
    served.reply = server = Selecting(plain)
    check(ask(by_ids, *REQUESTS[:4]), REQUESTS[:4])
    sizes = [len(body["logprob_token_ids"]) for body in server.asked[1:]]
    assert sorted(sizes) == [1, 3]  # they are sent at the same time


def test_prompts_with_a_common_prefix_are_sent_one_after_the_other(
    served, model_of, ask
):
    one, two = "a passage " * 20, "another one " * 20
    ask(
        model_of(concurrency=1),
        *(Generate(text) for text in (one + "1", two + "1", one + "2", two + "2")),
    )
    assert [body["prompt"] for _, body in served.bodies] == [
        one + "1",
        one + "2",
        two + "1",
        two + "2",
    ]
