"""The tokenizer alone truncates requests as the model does."""

from __future__ import annotations

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.errors import DocumentError, ModelError
from pytest_evals.models.registry import open_model, open_tokenizer, parse_spec


@pytest.fixture(scope="module")
def cutter(tiny_model_path):
    return open_tokenizer(parse_spec(f"hf:{tiny_model_path}"))


@pytest.fixture(scope="module")
def tokenizer(tiny_model_path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model_path)


def test_context_and_continuation_are_cut_where_lm_eval_cuts_them(cutter, tokenizer):
    """White space at the end of the context moves to the continuation (lm-eval 0.4.13,
    ``api/model.py``, ``_encode_pair``)."""
    cut = cutter.token_strings(Loglikelihood("Question: 1+1=?\nAnswer: ", "14"))
    head = "Question: 1+1=?\nAnswer:"
    assert "".join(cut.context) == head
    assert "".join(cut.continuation) == " 14"
    assert cut.n_context == len(tokenizer(head)["input_ids"])
    assert cut.n_continuation == len(tokenizer(f"{head} 14")["input_ids"]) - (
        cut.n_context
    )


def test_a_missing_context_is_the_prefix_token(cutter):
    cut = cutter.token_strings(Loglikelihood("", "moles"))
    assert (cut.context, cut.n_context) == (("<|end|>",), 1)
    assert cutter.token_strings(Rolling("moles")).context == ("<|end|>",)
    assert "".join(cutter.token_strings(Rolling("moles")).continuation) == "moles"


def test_a_prompt_has_no_continuation(cutter):
    cut = cutter.token_strings(Generate("Reverse: a b"))
    assert "".join(cut.context) == "Reverse: a b"
    assert (cut.continuation, cut.n_continuation) == ((), 0)


def test_bytes_of_one_character_are_grouped(cutter):
    cut = cutter.token_strings(Generate("ä猫🌍"))
    assert "".join(cut.context) == "ä猫🌍"
    assert cut.n_context > len(cut.context)


def test_a_chat_is_cut_as_the_template_writes_it(cutter, tokenizer):
    chat = (Message("system", "Be brief."), Message("user", "Who?"))
    text = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in chat],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert "".join(cutter.token_strings(Generate(chat)).context) == text


def test_it_counts_as_the_model_does(cutter, tiny_model_path):
    model = open_model(parse_spec(f"hf:{tiny_model_path},device=cpu"))
    requests = [
        Loglikelihood("The mole", " sings."),
        Generate("Reverse: a b", max_tokens=2),
    ]
    answers = dict(model.answer(requests))
    for i, request in enumerate(requests):
        assert cutter.token_strings(request).n_context == answers[i].n_prompt_tokens
    assert cutter.token_strings(requests[0]).n_continuation == answers[0].n_tokens
    model.close()


def test_requests_that_cannot_be_encoded_have_a_reason(cutter):
    with pytest.raises(DocumentError, match="the continuation is empty"):
        cutter.token_strings(Loglikelihood("The mole", ""))


def test_kinds_without_a_tokenizer_have_none():
    assert open_tokenizer(parse_spec("scripted:first")) is None


def test_a_tokenizer_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot load the model"):
        open_tokenizer(parse_spec(f"hf:{tmp_path}"))
