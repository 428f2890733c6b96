"""Log-probabilities of the hf model, compared with the definitions, one request at a
time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.core.request import Generate, Loglikelihood, Message, Rolling
from pytest_evals.models.hf.scoring.padded_strategy import rows_of
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.tokens.request_encoder import (
    RequestEncoder,
    TokenPair,
)
from pytest_evals.models.tokens.spans import windows_of

KINDS = ["gpt2", "llama", "mistral", "gemma2", "bloom", "mamba"]
WORDS = ["the", " cat", " sat", " and", "hello", " world", "\n\n", " ", "é", "Answer:"]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)
continuations = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("".join)


@pytest.mark.parametrize("kind", KINDS)
def test_every_architecture_gives_the_numbers_of_one_request_at_a_time(
    kind, opened, oracle, ask
):
    """Both paths to the logits are covered, with sliding windows, ALiBi, soft caps and
    no attention at all."""
    pairs = [
        ("the cat sat on the mat", " and"),
        ("the cat sat on the mat", " and the dog"),
        ("hello", " world"),
        ("hello world and the cat and the dog", " is big"),
        ("a", "b"),
        ("", "hello world"),
        ("trailing  ", " x"),
    ]
    found = ask(opened(kind), *(Loglikelihood(*pair) for pair in pairs))
    for pair, response in zip(pairs, found, strict=True):
        logprob, greedy = oracle(kind).loglikelihood(*pair)
        assert response.error == ""
        assert response.logprob == pytest.approx(logprob, abs=1e-4)
        assert response.greedy is greedy


def test_a_soft_cap_after_the_head_is_noticed_and_hidden_states_are_picked_elsewhere(
    opened,
):
    assert not opened("gemma2")._scorer._choice.path.forward.picks_hidden
    for kind in ("gpt2", "llama", "mistral", "bloom", "mamba"):
        assert opened(kind)._scorer._choice.path.forward.picks_hidden


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    pairs=st.lists(
        st.tuples(texts, st.sampled_from([1, 1, 8]), continuations),
        min_size=1,
        max_size=8,
    ),
    wholes=st.lists(st.tuples(texts, st.sampled_from([1, 8])), max_size=2),
)
def test_any_set_of_requests_gives_the_numbers_of_one_at_a_time(
    kind, pairs, wholes, opened, oracle, ask
):
    """Independent of the other requests in a batch or row and of the batch size, even
    if contexts and texts are longer than the model's window."""
    pairs = [(context * times, continuation) for context, times, continuation in pairs]
    wholes = [text * times for text, times in wholes]
    requests = [*(Loglikelihood(*pair) for pair in pairs), *map(Rolling, wholes)]
    given_ways = (
        ask(opened(kind), *requests),
        ask(opened(kind, batch_tokens=20), *requests),
        ask(opened(kind, batch_size=1), *requests[::-1])[::-1],
    )
    for pair, *found in zip(pairs, *given_ways, strict=False):
        if found[0].error:
            assert len({one.error for one in found}) == 1
            assert kind == "gpt2"
            assert pair[0] != ""
            assert pair[0].strip() == ""
            continue
        logprob, greedy = oracle(kind).loglikelihood(*pair)
        for one in found:
            assert one.logprob == pytest.approx(logprob, abs=1e-4)
            assert one.greedy is greedy
    for text, *found in zip(
        wholes, *(way[len(pairs) :] for way in given_ways), strict=True
    ):
        expected = oracle(kind).rolling(text)
        for one in found:
            assert one.logprob == pytest.approx(expected, abs=1e-3)


def test_the_most_likely_continuation_is_greedy(opened, oracle, ask):
    encode = oracle("llama").tokenizer.encode
    contexts = ["the cat", "hello", "a", "b", "Answer:", "is it", "x y z", "12", "Q"]
    texts = {c: oracle("llama").generate(c, (), 1) for c in contexts}
    # A token may be half a letter, or merge into the context when encoded again.
    kept = [c for c in contexts if encode(c + texts[c])[:-1] == encode(c)]
    assert kept
    for context in kept:
        right, wrong = ask(
            opened("llama"),
            Loglikelihood(context, texts[context]),
            Loglikelihood(context, "qq"),
        )
        assert right.greedy
        assert not wrong.greedy


def test_lines_that_differ_in_the_last_token_share_a_row_and_keep_their_own_numbers(
    opened, oracle, ask
):
    """Requests with the same tokens, split at different positions, share one too:
    lm-eval 0.4.13 scores the shorter continuation at the wrong positions there."""
    pairs = [
        ("the cat sat", " on the mat"),
        ("the cat sat on", " the mat"),
        ("the cat sat on the", " mat"),
        ("the cat sat on the", " dog"),
    ]
    model = opened("llama")
    encoded = model._encoder.pairs([Loglikelihood(*pair) for pair in pairs])
    spans = model._scorer._work(dict(enumerate(encoded)), {}).spans
    assert len(rows_of(spans)) == 1
    found = ask(model, *(Loglikelihood(*pair) for pair in pairs))
    for pair, response in zip(pairs, found, strict=True):
        assert response.logprob == pytest.approx(
            oracle("llama").loglikelihood(*pair)[0], abs=1e-4
        )


def test_white_space_at_the_end_of_the_context_is_scored(opened, ask):
    """lm-eval reference vectors: ("hello  ", "world"), ("hello", "  world") and
    ("hello ", " world") are the same request."""
    found = ask(
        opened("llama"),
        Loglikelihood("hello  ", "world"),
        Loglikelihood("hello", "  world"),
        Loglikelihood("hello ", " world"),
    )
    assert len({(r.logprob, r.n_tokens, r.n_prompt_tokens) for r in found}) == 1


def test_a_long_context_is_cut_on_the_left_and_counted(opened, oracle, ask):
    context = "the cat sat and " * 40
    (response,) = ask(opened("gpt2"), Loglikelihood(context, "hello world"))
    n = len(oracle("gpt2").tokenizer.encode(context.rstrip()))
    n_all = len(oracle("gpt2").tokenizer.encode(context + "hello world"))
    assert response.n_prompt_tokens == n
    assert response.n_truncated == n_all - 65
    expected, _ = oracle("gpt2").loglikelihood(context, "hello world")
    assert response.logprob == pytest.approx(expected, abs=1e-4)


def test_a_continuation_as_long_as_the_window_fits_and_a_longer_one_is_an_error(
    opened, oracle, ask
):
    fits, long = ask(
        opened("gpt2"), Loglikelihood("x", "q" * 64), Loglikelihood("x", "q" * 65)
    )
    expected, _ = oracle("gpt2").loglikelihood("x", "q" * 64)
    assert fits.logprob == pytest.approx(expected, abs=1e-4)
    assert long.logprob is None
    assert long.error == (
        "the continuation has 65 tokens, and the model's window only 64"
    )


def test_a_continuation_without_tokens_is_an_error(opened, ask):
    """The tokenizer has a token for two span breaks, and none for the rest."""
    merged, empty, blank, fine = ask(
        opened("gpt2"),
        Loglikelihood("c", "a"),
        Loglikelihood("c", ""),
        Loglikelihood(" \n", "x"),
        Loglikelihood("c", "b"),
    )
    assert empty.error == "the continuation is empty"
    assert blank.error == "the context is nothing but white space"
    assert merged.error == fine.error == ""


def test_a_continuation_that_merges_into_the_context_is_an_error(opened, ask):
    """ "Question" is one token, and so is "Ques" before it."""
    (response,) = ask(opened("gpt2"), Loglikelihood("Ques", "tion"))
    assert response.error == (
        "the continuation 'tion' adds no tokens: "
        "the tokenizer merges it into the context"
    )


def test_blank_context_is_the_special_token_alone_where_the_tokenizer_adds_one(
    opened, oracle, ask
):
    (response,) = ask(opened("llama"), Loglikelihood(" ", "hello"))
    tail = oracle("llama").tokenizer.encode(" hello", add_special_tokens=False)
    expected, _ = oracle("llama").tokens([0], tail)
    assert response.logprob == pytest.approx(expected, abs=1e-4)


def test_bos_is_added_once(opened, oracle, ask):
    with_bos, without = ask(
        opened("llama"),
        Loglikelihood("<s>hello", " world"),
        Loglikelihood("hello", " world"),
    )
    assert with_bos.n_prompt_tokens == without.n_prompt_tokens == 2
    assert with_bos.logprob == pytest.approx(without.logprob, abs=1e-6)


def test_add_bos_token_disables_the_special_tokens(opened, oracle, ask):
    (response,) = ask(
        opened("llama", add_bos_token="false"), Loglikelihood("hello", " world")
    )
    encode = oracle("llama").tokenizer.encode
    head, tail = (encode(t, add_special_tokens=False) for t in ("hello", " world"))
    assert response.n_prompt_tokens == 1
    assert response.logprob == pytest.approx(
        oracle("llama").tokens(head, tail)[0], abs=1e-4
    )


@pytest.mark.parametrize(
    ("context", "head", "tail"),
    [
        ("th", "th", "e"),  # one token together
        ("<s>hello", "<s>hello", "e"),  # BOS twice
        ("hello \n", "hello", " \ne"),
        ("hello</s>", "hello", "e"),
        ("q" * 200, "q" * 200, "e"),  # beyond the window
    ],
)
def test_lightevals_tokenization_is_that_of_its_transformers_backend(
    context, head, tail, opened, oracle, ask
):
    """lighteval 0.13.0, tok_encode_pair with pairwise=True, and prepare_batch_logprob,
    which keeps the last tokens of both, up to the window."""
    model = opened("llama", tokenization="lighteval")
    (response,) = ask(model, Loglikelihood(context, "e"))
    encode = oracle("llama").tokenizer.encode
    last = encode(tail, add_special_tokens=False)
    whole = [*encode(head), *last][-model.info["max_length"] :]
    assert encode("<s>hello")[:2] == [0, 0]
    expected = oracle("llama").tokens(whole[: -len(last)], last)
    assert response.n_tokens == len(last)
    assert (response.logprob, response.greedy) == (
        pytest.approx(expected[0], abs=1e-4),
        expected[1],
    )


def test_lightevals_tokenization_adds_bos_to_prompts_that_begin_with_it(opened, ask):
    given = Generate("<s>hello", max_tokens=1)
    usual, doubled = (
        ask(opened("llama", **arguments), given)[0].n_prompt_tokens
        for arguments in ({}, {"tokenization": "lighteval"})
    )
    assert (usual, doubled) == (2, 3)


def test_a_continuation_that_starts_with_the_prefix_token_uses_it_as_context(
    opened, oracle, ask
):
    doubled, plain = ask(
        opened("llama"), Loglikelihood("", "<s>hello"), Loglikelihood("", "hello")
    )
    assert doubled.n_tokens == plain.n_tokens == 1
    assert doubled.logprob == pytest.approx(plain.logprob, abs=1e-6)


def test_prefix_token_id_is_the_context_of_a_text_without_context(opened, oracle, ask):
    (response,) = ask(opened("llama", prefix_token_id=9), Loglikelihood("", "hello"))
    expected, _ = oracle("llama").tokens([9], [273])
    assert oracle("llama").tokenizer.decode([273]) == "hello"
    assert response.logprob == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("n", [1, 20, 63, 64, 65, 127, 128, 129, 300])
def test_a_text_is_scored_in_windows(kind, n, opened, oracle, ask):
    text = "q" * n
    (response,) = ask(opened(kind), Rolling(text))
    assert response.logprob == pytest.approx(oracle(kind).rolling(text), abs=1e-3)
    assert response.n_tokens == n + (kind == "llama")
    assert response.greedy is None


def test_windows_are_those_of_the_reference():
    """lm-eval 0.4.13, utils.get_rolling_token_windows with make_disjoint_window: length
    4, tokens 1 to 10, prefix 0 give [0]|1234, [4]|5678, [6 7 8]|9 10."""
    spans = windows_of(np.arange(1, 11, dtype=np.int32), 0, 4)
    split = [len(span.tokens) - span.n_scored for span in spans]
    shown = [
        (span.tokens[:n].tolist(), span.tokens[n:].tolist())
        for span, n in zip(spans, split, strict=True)
    ]
    assert shown == [([0], [1, 2, 3, 4]), ([4], [5, 6, 7, 8]), ([6, 7, 8], [9, 10])]


@given(n=st.integers(1, 60), width=st.integers(1, 20))
def test_windows_score_each_token_once(n, width):
    spans = windows_of(np.arange(1, n + 1, dtype=np.int32), 0, width)
    scored = [t for span in spans for t in span.tokens[-span.n_scored :].tolist()]
    assert scored == list(range(1, n + 1))
    assert all(len(span.tokens) <= width + 1 for span in spans)
    assert all(len(span.tokens) > span.n_scored for span in spans)


def test_rolling_scores_bos_after_bos_unless_disabled(opened, oracle, ask):
    """lm-eval 0.4.13 scores P(BOS | BOS) where the tokenizer adds BOS."""
    doubled = opened("llama", anew=True)
    single = opened("llama", anew=True, add_bos_token="false")
    (both,) = ask(doubled, Rolling("hello world"))
    (once,) = ask(single, Rolling("hello world"))
    ids = oracle("llama").tokenizer.encode("hello world")
    assert ids[0] == 0
    assert both.logprob == pytest.approx(oracle("llama").tokens([0], ids)[0], abs=1e-4)
    assert once.logprob == pytest.approx(
        oracle("llama").tokens([0], ids[1:])[0], abs=1e-4
    )
    (note,) = doubled.notes
    assert "add_bos_token=false leaves it out" in note
    assert single.notes == ()


def test_an_empty_text_is_certain(opened, ask):
    (response,) = ask(opened("gpt2"), Rolling(""))
    assert (response.logprob, response.n_tokens, response.error) == (0.0, 0, "")


def test_a_chat_is_rendered_by_the_template(opened, ask):
    chat = (Message("system", "S"), Message("user", "hello"))
    rendered, text = ask(
        opened("llama"),
        Loglikelihood(chat, " world"),
        Loglikelihood("<system>S\n<user>hello\n<assistant>", " world"),
    )
    assert rendered.logprob == text.logprob


def test_a_chat_that_ends_with_the_assistant_is_continued(opened, ask):
    chat = (Message("user", "hello"), Message("assistant", "the cat"))
    rendered, text = ask(
        opened("llama"),
        Loglikelihood(chat, " sat"),
        Loglikelihood("<user>hello\n<assistant>the cat", " sat"),
    )
    assert rendered.logprob == text.logprob


def test_a_chat_without_template_is_an_error(opened, ask):
    chat, text = ask(
        opened("gpt2"),
        Loglikelihood((Message("user", "hello"),), " x"),
        Loglikelihood("hello", " x"),
    )
    assert chat.error == "the prompt is a chat and the tokenizer has no chat template"
    assert text.error == ""


def test_a_template_that_takes_no_system_message_is_tried_without(oracle):
    tokenizer = oracle("llama").tokenizer
    template = (
        "{% for m in messages %}{% if m.role == 'system' or m.content == 'no' %}"
        "{{ raise_exception('not this') }}{% endif %}[{{ m.content }}]{% endfor %}"
    )
    from copy import deepcopy

    tokenizer = deepcopy(tokenizer)
    tokenizer.chat_template = template
    encoder = RequestEncoder(tokenizer, HfSettings(target="x"), 400)
    chat = (Message("system", "S"), Message("user", "u"))
    assert encoder.render(chat) == "[u]"
    refused, accepted = encoder.pairs(
        [Loglikelihood((Message("user", "no"),), "x"), Loglikelihood(chat, "x")]
    )
    assert str(refused) == "the chat template refuses the chat: not this"
    assert isinstance(accepted, TokenPair)


def test_a_token_that_the_model_does_not_know_is_an_error_of_its_request(oracle):
    encoder = RequestEncoder(oracle("gpt2").tokenizer, HfSettings(target="x"), 273)
    refused, fine = encoder.pairs(
        [Loglikelihood("a", "hello"), Loglikelihood("a", "b")]
    )
    assert str(refused) == (
        "the tokenizer gives the token 273, the model knows only 273; "
        "is this the model's own tokenizer?"
    )
    assert isinstance(fine, TokenPair)


def test_logits_that_are_not_numbers_are_an_error(saved_model, ask):
    import torch

    from pytest_evals.models.registry import open_model, parse_spec

    model = open_model(parse_spec(f"hf:{saved_model('gpt2')},batch_size=1"))
    weight = model._scorer._choice.path.forward.model.transformer.wpe.weight
    with torch.no_grad():
        weight[3] = torch.nan
    short, long = ask(model, Loglikelihood("a", "bc"), Loglikelihood("a", "bcxyz"))
    assert short.error == ""
    assert long.logprob is None
    assert "not numbers" in long.error


def test_half_of_a_surrogate_pair_is_an_error_of_its_request_only(oracle):
    encoder = RequestEncoder(oracle("gpt2").tokenizer, HfSettings(target="x"), 400)
    bad, good = "one \ud800 two", "one two"

    def failed(found):
        return ["surrogate" in str(one) for one in found]

    assert failed(encoder.prompts([bad, good])) == [True, False]
    assert failed(encoder.texts([good, bad])) == [False, True]
    pairs = [(good, bad), (bad, good), (good, good)]
    found = encoder.pairs([Loglikelihood(*pair) for pair in pairs])
    assert failed(found) == [True, True, False]
    fresh = RequestEncoder(oracle("gpt2").tokenizer, HfSettings(target="x"), 400)
    assert encoder.prompts([good])[0].tolist() == fresh.prompts([good])[0].tolist()
