"""Where generations end at stop strings, found without decoding at every token."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.models.engine.completions import StopStrings, cut_at_stops
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.tokens.request_encoder import RequestEncoder

WORDS = [
    "▁",
    "▁the",
    "▁é",
    "é",
    "cat",
    "\n",
    "▁\n",
    "日本",
    "ab",
    "a",
    "b",
    ":",
    "▁'",
    "m",
]


def of_bytes(saved_model):
    """Byte-level, as GPT-2's: a token may be a part of a character."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(saved_model("gpt2"))


def of_blanks(saved_model):
    """As Llama-2's: words with their spaces, bytes for unknown characters, and the
    first space of a text is dropped."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    names = ["<s>", *(f"<0x{i:02X}>" for i in range(256)), *WORDS]
    inner = Tokenizer(
        models.BPE({w: i for i, w in enumerate(names)}, [], byte_fallback=True)
    )
    inner.add_special_tokens(["<s>"])
    inner.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<s>")


def of_pieces(saved_model):
    """As BERT's: spaces between words are inserted, and some are removed."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    names = ["[UNK]", "a", "##a", "b", "##b", "'", "m", ".", "cat", "##cat", ",", "é"]
    inner = Tokenizer(models.WordPiece({w: i for i, w in enumerate(names)}))
    inner.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="[UNK]")


@pytest.fixture(scope="module", params=[of_bytes, of_blanks, of_pieces])
def tokenizer(request, saved_model):
    return request.param(saved_model)


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_text_ends_with_the_token_that_completes_a_stop_string(data, tokenizer):
    """The definition: the first token after which the decoded text contains one.

    Stop strings are substrings of the text, so that they occur, even within tokens.
    """
    encoder = RequestEncoder(tokenizer, HfSettings(target="x"), len(tokenizer))
    ids = st.integers(0, len(tokenizer) - 1)
    tokens = data.draw(st.lists(ids, min_size=1, max_size=20))
    text = encoder.decode(tokens, specials=True)
    start = data.draw(st.integers(0, len(text)))
    piece = text[start : start + data.draw(st.integers(1, 4))]
    other = data.draw(st.sampled_from(["\n", "a", " ", "é", ": "]))
    stops = StopStrings(encoder, tuple({s for s in (piece, other) if s}))
    found, expected = [], []
    for n in range(1, len(tokens) + 1):
        tail = stops.tail(tokens[:n])
        found.append(bool(tail) and stops.in_text(encoder.decode(tail, specials=True)))
        expected.append(stops.in_text(encoder.decode(tokens[:n], specials=True)))
    assert (
        found.index(True) == expected.index(True)
        if True in expected
        else not any(found)
    )


def test_parts_of_a_character_do_not_complete_a_stop_string(saved_model):
    """Bytes C2 A1 are one character; its second byte alone decodes to U+FFFD."""
    encoder = RequestEncoder(of_bytes(saved_model), HfSettings(target="x"), 314)
    tokens = [encoder.tokenizer.convert_tokens_to_ids(c) for c in "Â¡!!!!!!!"]
    assert encoder.decode(tokens, specials=True) == "¡!!!!!!!"
    stops = StopStrings(encoder, ("\ufffd!",))
    for n in range(1, len(tokens) + 1):
        assert not stops.in_text(encoder.decode(stops.tail(tokens[:n]), specials=True))


def test_special_tokens_without_text_within_a_stop_string_do_not_hide_it(saved_model):
    """A token that consists of a mark only, which the decoder drops."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    names = ["▁", "▁the", "a", "b", ""]
    inner = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, []))
    inner.decoder = decoders.Sequence([decoders.Replace("▁", ""), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    encoder = RequestEncoder(tokenizer, HfSettings(target="x"), len(names))
    stops = StopStrings(encoder, ("ab",))
    for n_silent in (0, 4, 5, 6, 50):
        tokens = [1, 2, *[0] * n_silent, 3]
        tail = stops.tail(tokens)
        assert stops.in_text(encoder.decode(tail, specials=True)), n_silent


def test_most_tokens_are_not_decoded_with_those_before(saved_model):
    tokenizer = of_bytes(saved_model)
    encoder = RequestEncoder(tokenizer, HfSettings(target="x"), len(tokenizer))
    stops = StopStrings(encoder, ("\n\n", "Question:"))
    ids = tokenizer.encode("the cat sat on the mat")
    assert [len(stops.tail(ids[:n])) for n in range(1, len(ids))] == [0] * (
        len(ids) - 1
    )
    assert len(stops.tail(tokenizer.encode("the cat sat.\n\n"))) > 0


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (("b", "ab"), "xa"),
        (("ab", "b"), "x"),
        (("bc", "ab"), "xa"),
        (("", "c"), "xab"),
        ((), "xabc"),
        (("q",), "xabc"),
    ],
)
def test_stop_strings_are_cut_one_after_the_other(stops, expected):
    """lm-eval 0.4.13, postprocess_generated_text: split at each in list order."""
    assert cut_at_stops("xabc", stops) == expected
