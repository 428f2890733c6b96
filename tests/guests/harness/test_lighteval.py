"""The package's engines as a custom model of lighteval.

``tests/parity/lighteval_engine.py`` creates an environment with lighteval and runs this
file in it.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_evals import Model, Response
from pytest_evals.errors import EvalsError, ModelError, OptionError
from pytest_evals.guests.harness.lighteval import _hf_names
from pytest_evals.harness import lighteval_model

try:
    from lighteval.models.abstract_model import LightevalModel
    from lighteval.tasks.requests import Doc
except ImportError:
    LightevalModel = None

needs_lighteval = pytest.mark.skipif(
    LightevalModel is None, reason="lighteval is not installed"
)


class Recorded(Model):
    """Stores its requests; rejects prompts with the word "bad"."""

    name = "recorded"

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def answer(self, requests):
        for position, request in enumerate(requests):
            self.requests.append(request)
            if "bad" in str(request):
                yield position, Response(error="refused")
            elif request.kind == "generate_until":
                yield position, Response(text=f"text {request.repeat}")
            elif request.kind == "loglikelihood":
                size = len(request.continuation)
                yield position, Response(logprob=-float(size), greedy=size == 1)
            else:
                yield position, Response(logprob=-9.0)


def opened(**arguments: Any) -> Any:
    recorded = Recorded()
    return lighteval_model(model=recorded, **arguments)(), recorded


def doc(query: str = "Q?", **fields: Any) -> Any:
    given = {"choices": ["a", "bb"], "gold_index": 0, "id": "7", "task_name": "sums"}
    return Doc(query=query, **{**given, **fields})


@needs_lighteval
def test_each_type_of_request_is_answered_in_the_order_of_documents():
    model, _ = opened()
    assert isinstance(model, LightevalModel)
    first, second = model.loglikelihood([doc(), doc("R?", choices=["ccc"])])
    assert (first.logprobs, first.argmax_logits_eq_gold) == ([-1, -2], [True, False])
    assert second.logprobs == [-3]
    (rolling,) = model.loglikelihood_rolling([doc()])
    assert rolling.logprobs == [-9]
    (text,) = model.greedy_until([doc(generation_size=5)])
    assert text.text == ["text 0"]


@needs_lighteval
def test_chats_contain_instruction_and_examples_and_ignore_stop_sequences():
    """lighteval 0.13.0: PromptManager, and stop_tokens with a chat template."""
    shot = doc("1+1?", choices=["2"])
    given = doc(fewshot_samples=[shot], stop_sequences=["\n"], instruction="Add. ")
    for chat, prompt, stop in (
        (
            True,
            (
                ("system", "Be brief."),
                ("user", "Add. 1+1?"),
                ("assistant", "2"),
                ("user", "Q?"),
            ),
            (),
        ),
        (False, "Be brief.\n\nAdd. \n\n1+1? 2\n\nQ?", ("\n",)),
    ):
        model, recorded = opened(system_prompt="Be brief.", override_chat_template=chat)
        model.greedy_until([given])
        (request,) = recorded.requests
        assert (request.prompt, request.stop) == (prompt, stop)


@needs_lighteval
def test_samples_are_drawn_separately_and_need_a_temperature():
    model, recorded = opened(generation_parameters={"temperature": 0.5, "top_p": 0.9})
    (response,) = model.greedy_until([doc(num_samples=2, generation_size=5)])
    assert response.text == ["text 0", "text 1"]
    assert recorded.requests[0].temperature == 0.5
    assert ("top_p", 0.9) in recorded.requests[0].options
    with pytest.raises(OptionError, match="sums needs 2 samples"):
        opened()[0].greedy_until([doc(num_samples=2)])


@needs_lighteval
def test_failed_requests_end_the_run_with_the_document_and_the_reason():
    with pytest.raises(ModelError) as caught:
        opened()[0].loglikelihood([doc(), doc("bad")])
    assert "2 of 4 loglikelihood requests failed" in str(caught.value)
    assert "document 7 of sums: refused" in str(caught.value)


@needs_lighteval
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pretrained": "x", "dtyp": "float32"}, "no argument 'dtyp'"),
        ({"model": "scripted:first", "generation_parameters": {"heat": 1}}, "heat"),
        (
            {"model": "scripted:first", "generation_parameters": {"block_size": 1}},
            "block_size: not supported",
        ),
        ({}, "pass either pretrained=.*or model="),
    ],
)
def test_wrong_arguments_are_errors_that_name_them(given, message):
    with pytest.raises(OptionError, match=message):
        lighteval_model(**given)()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"batch_size": 8, "model_parallel": False, "dtype": "float16"}, {"dtype"}),
        ({"dtype": "4bit"}, {"load_in_4bit"}),
        ({"model_parallel": True}, {"device_map"}),
        ({"add_special_tokens": False}, {"add_bos_token"}),
        ({"add_special_tokens": True, "pairwise_tokenization": True}, set()),
        ({"model_loading_kwargs": {}, "compile": True}, set()),
        ({"subfolder": "x"}, {"subfolder"}),
    ],
)
def test_arguments_of_lightevals_models_become_ours(given, expected):
    assert _hf_names(given).keys() == expected


@pytest.mark.skipif(LightevalModel is not None, reason="lighteval is installed")
def test_without_lighteval_the_error_names_it():
    with pytest.raises(EvalsError, match=r"needs lighteval: pip install 'lighteval"):
        lighteval_model(model="scripted:first")
