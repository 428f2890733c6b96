"""Texts are encoded in parts with the ids of the whole, for tokenizers of all kinds;
the oracle is the tokenizer's encoding of the whole text."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.models.tokens.encoder import TextEncoder

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FRAGMENTS = (
    "the a of and to in is was that it isn't we'll I'd THEY'RE question answer which "
    "cat hat mat can cannot the the and and 12 345 6789 1234567 3.14 x=1; (b) [c] "
    "été naïve cafe\u0301 Ärger Straße это тест привет слово это 한국어 시험 문제 "
    "東京 日本語 שלום עולם مرحبا بك \u0928\u092e\u0938\u094d\u0924\u0947 "
    "👩\u200d👧 🇫🇷 \ufb01ne \uff21\uff22 a_b foo.bar \u0130stanbul \u017fhort "
    "end. yes, no; so: why? Oh! \"it\" 'is' (he) U.S. ... ?! 50% été. тест, cats' "
    "A. B) 2. ''"
)
WORDS = FRAGMENTS.split(" ")
SPACES = [
    " ",
    " ",
    " ",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    " \n ",
    "   ",
    "\u00a0",
    "\u3000",
    "\r\n",
]
ODD = [
    "<s>",
    "</s>",
    "<|end|>",
    "<pad>",
    "▁",
    "Ġ",
    "##",
    "<0x41>",
    "<S>",
    "<mask>",
    "'",
    "''s",
]


def corpus(n: int = 400) -> list[str]:
    """Texts to train on."""
    draw = random.Random(0)
    return [
        "".join(draw.choice(WORDS) + draw.choice(SPACES) for _ in range(40))
        for _ in range(n)
    ]


def wrapped(inner: Any, bos: str = "") -> Any:
    """The tokenizer as transformers has it."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    if bos:
        inner.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, inner.token_to_id(bos))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=bos or None)


def trained(
    normalizer: Any = None, splitter: Any = None, size: int = 600, **bpe: Any
) -> Any:
    """Byte-pair encoding with three special tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE(unk_token=None, **bpe))
    if normalizer is not None:
        inner.normalizer = normalizer
    if splitter is not None:
        inner.pre_tokenizer = splitter
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<s>", "</s>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(corpus(), trainer)
    return inner


def by_regex(pattern: str, normalizer: Any = None) -> Any:
    from tokenizers import Regex, pre_tokenizers

    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return trained(normalizer, splitter)


def gpt2() -> Any:
    from tokenizers import pre_tokenizers

    return wrapped(trained(splitter=pre_tokenizers.ByteLevel(add_prefix_space=False)))


def roberta() -> Any:
    from tokenizers import AddedToken, pre_tokenizers

    inner = trained(splitter=pre_tokenizers.ByteLevel(add_prefix_space=True))
    inner.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    return wrapped(inner)


def llama3() -> Any:
    return wrapped(by_regex(LLAMA3), "<s>")


def qwen() -> Any:
    from tokenizers import normalizers

    return wrapped(by_regex(LLAMA3.replace("{1,3}", ""), normalizers.NFC()))


def o200k() -> Any:
    return wrapped(by_regex(O200K))


def deepseek() -> Any:
    from tokenizers import Regex, pre_tokenizers

    kanji_and_kana = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
    patterns = [r"\p{N}{1,3}", kanji_and_kana, GPT2]
    splits = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return wrapped(trained(splitter=pre_tokenizers.Sequence([*splits, level])), "<s>")


def neox() -> Any:
    from tokenizers import AddedToken, normalizers, pre_tokenizers

    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner = trained(normalizers.NFC(), splitter)
    inner.add_tokens([AddedToken(" " * n, normalized=True) for n in (2, 3, 4)])
    return wrapped(inner)


def phi3() -> Any:
    from tokenizers import AddedToken

    inner = by_regex(LLAMA3)
    inner.add_special_tokens([AddedToken("<pad>", rstrip=True, normalized=False)])
    inner.add_tokens([AddedToken("hat", single_word=True), AddedToken("the question")])
    return wrapped(inner, "<s>")


def words_first(normalizer: Any) -> Any:
    """Trained on words, then applied to whole texts, as SentencePiece does."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))],
        initial_alphabet=["▁"],
        limit_alphabet=90,
        show_progress=False,
    )
    inner.train_from_iterator(corpus(), trainer)
    inner.normalizer = normalizer
    inner.pre_tokenizer = None
    return inner


def llama2() -> Any:
    from tokenizers import normalizers as n

    marks = n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")])
    return wrapped(words_first(marks), "<s>")


def llama2_metaspace(scheme: str) -> Any:
    from tokenizers import pre_tokenizers

    inner = words_first(None)
    inner.pre_tokenizer = pre_tokenizers.Metaspace(split=False, prepend_scheme=scheme)
    return wrapped(inner, "<s>")


def gemma() -> Any:
    from tokenizers import AddedToken, normalizers, pre_tokenizers

    inner = words_first(normalizers.Replace(" ", "▁"))
    inner.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    marks = ["\n\n", "▁▁", "▁▁▁", "<pad>"]
    inner.add_tokens([AddedToken(mark, normalized=False) for mark in marks])
    return wrapped(inner, "<s>")


def bert() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[UNK]", "<s>", "<mask>"], show_progress=False
    )
    inner.train_from_iterator(corpus(), trainer)
    return wrapped(inner)


def unigram() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    inner = Tokenizer(models.Unigram())
    inner.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    trainer = trainers.UnigramTrainer(
        vocab_size=400,
        special_tokens=["<unk>", "<s>"],
        unk_token="<unk>",
        show_progress=False,
    )
    inner.train_from_iterator(corpus(), trainer)
    return wrapped(inner, "<s>")


KINDS: dict[str, Callable[[], Any]] = {
    "gpt2": gpt2,
    "roberta": roberta,
    "llama3": llama3,
    "qwen": qwen,
    "o200k": o200k,
    "deepseek": deepseek,
    "neox": neox,
    "phi3": phi3,
    "llama2": llama2,
    "llama2-first": lambda: llama2_metaspace("first"),
    "llama2-always": lambda: llama2_metaspace("always"),
    "llama2-never": lambda: llama2_metaspace("never"),
    "gemma": gemma,
    "bert": bert,
    "unigram": unigram,
}


def across_words() -> Any:
    """Tokens span spaces."""
    from tokenizers import pre_tokenizers

    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return wrapped(trained(splitter=splitter, size=900))


def with_end() -> Any:
    """A token is added after each text."""
    from tokenizers import processors

    tokenizer = gpt2()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


def by_pairs() -> Any:
    """Words are merged in pairs: later tokens depend on earlier ones."""
    return wrapped(by_regex(r"\p{L}+ \p{L}+|\s+|\S+"))


def with_dropout() -> Any:
    tokenizer = gpt2()
    tokenizer.backend_tokenizer.model.dropout = 0.5
    return tokenizer


def stripped() -> Any:
    from tokenizers import normalizers

    return wrapped(by_regex(GPT2, normalizers.Strip()))


def spaces_gone() -> Any:
    """The pre-tokenizer finds no spaces, and tokens span their replacement."""
    from tokenizers import normalizers, pre_tokenizers

    splitter = pre_tokenizers.WhitespaceSplit()
    return wrapped(trained(normalizers.Replace(" ", "▁"), splitter, size=2500))


def marks_with_spaces() -> Any:
    """A letter is decomposed, and its accent is one token with the following space."""
    from tokenizers import Tokenizer, models, normalizers

    words = ["e", "\u0301", " ", "\u0301 ", *"abcdfghijklmnopqrstuvwxyz"]
    vocabulary = {word: i for i, word in enumerate(words)}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[("\u0301", " ")]))
    inner.normalizer = normalizers.NFD()
    return wrapped(inner)


def split_by(pattern: str) -> Any:
    """Trained with another pattern, so no token spans a space."""
    inner = by_regex(GPT2)
    inner.pre_tokenizer = by_regex(pattern).pre_tokenizer
    return wrapped(inner)


def space_after_punctuation() -> Any:
    """Punctuation is merged with the following space."""
    return split_by(r"'s| ?\p{L}+| ?\p{N}+|[^\s\p{L}\p{N}]+ ?|\s+(?!\S)|\s+")


def spaces_in_runs() -> Any:
    """Characters that are neither letters nor digits are merged."""
    return split_by(r" ?\p{L}+| ?\p{N}+|[^\p{L}\p{N}]+")


def token_of_stop_and_space() -> Any:
    """A token spans a full stop and the following space; there is no pre-tokenizer."""
    from tokenizers import Tokenizer, models, normalizers

    words = ["<unk>", "▁", ".", ".▁", *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP"]
    vocabulary = {word: i for i, word in enumerate(words)}
    model = models.BPE(vocab=vocabulary, merges=[(".", "▁")], unk_token="<unk>")
    inner = Tokenizer(model)
    inner.normalizer = normalizers.Replace(" ", "▁")
    return wrapped(inner)


def stops_replaced() -> Any:
    """A normalizer replaces a full stop and the following space."""
    from tokenizers import normalizers

    return wrapped(by_regex(GPT2, normalizers.Replace(". ", " ; ")))


LETTERS_ONLY = [
    space_after_punctuation,
    spaces_in_runs,
    stops_replaced,
    token_of_stop_and_space,
]

SEAMLESS = [
    across_words,
    by_pairs,
    marks_with_spaces,
    spaces_gone,
    stripped,
    with_dropout,
    with_end,
]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]()


def texts(longest: int) -> st.SearchStrategy[str]:
    """Words and separators, with unusual characters in some places."""
    piece = st.one_of(
        st.sampled_from(WORDS),
        st.sampled_from(WORDS),
        st.sampled_from(ODD),
        st.text(max_size=3),
    )
    pair = st.tuples(piece, st.sampled_from(SPACES)).map("".join)
    return st.lists(pair, max_size=longest).map("".join)


MANY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def test_kinds_that_are_understood_are_encoded_in_parts(tokenizer: Any) -> None:
    """Otherwise the tests below would compare an object with itself."""
    text = " ".join(["which of the words is it"] * 5)
    coder = TextEncoder(tokenizer, span=6)
    assert coder.has_seams
    assert len(coder._parts(text)) > 5


LEAST = st.sampled_from([1, 10**6])
"""New words from which on they are encoded together: always, or never."""


@MANY
@given(
    batch=st.lists(texts(40), max_size=3),
    specials=st.sampled_from([None, False]),
    least=LEAST,
)
def test_parts_give_the_ids_of_the_whole(
    tokenizer: Any, batch: list[str], specials: bool | None, least: int
) -> None:
    coder = TextEncoder(tokenizer, span=4, least=least)
    found = coder.ids(batch, specials)
    for text in batch:
        chosen = {} if specials is None else {"add_special_tokens": specials}
        assert found[text].tolist() == tokenizer(text, **chosen)["input_ids"], text


@pytest.mark.slow
@MANY
@given(head=texts(30), tails=st.lists(texts(6), min_size=1, max_size=4), least=LEAST)
def test_tokens_of_a_continuation_are_those_that_it_adds_to_its_context(
    tokenizer: Any, head: str, tails: list[str], least: int
) -> None:
    """The rule of lm-eval 0.4.13, ``_encode_pair``: the joint text, after as many
    tokens as the context alone has."""
    coder = TextEncoder(tokenizer, span=4, least=least)
    heads = coder.ids([head], None)
    found = coder.tails([(head, tail) for tail in tails], heads, None)
    n = len(tokenizer(head)["input_ids"])
    for tail in tails:
        assert found[head, tail].tolist() == tokenizer(head + tail)["input_ids"][n:]


@pytest.mark.parametrize("make", SEAMLESS, ids=lambda make: make.__name__)
def test_tokenizers_that_may_carry_something_over_are_given_whole_texts(
    make: Callable[[], Any],
) -> None:
    tokenizer = make()
    coder = TextEncoder(tokenizer, span=4)
    assert not coder.has_seams
    if make is not with_dropout:
        text = "which of the words is that and what of the question" * 3
        assert coder.ids([text], None)[text].tolist() == tokenizer(text)["input_ids"]


@pytest.mark.parametrize("make", LETTERS_ONLY, ids=lambda make: make.__name__)
def test_boundaries_after_punctuation_are_used_only_where_they_change_no_id(
    make: Callable[[], Any],
) -> None:
    tokenizer = make()
    coder = TextEncoder(tokenizer, span=4)
    assert coder.has_seams
    text = "the end. A word, and 12 of it! The rest. of (it) is here. Well" * 3
    assert all(part[0] == " " for part in coder._parts(text)[1:])
    assert not any(part.endswith((".", ",", "!")) for part in coder._parts(text))
    assert coder.ids([text], None)[text].tolist() == tokenizer(text)["input_ids"]


def test_a_word_is_encoded_once_for_all_sentences_that_it_ends(tokenizer: Any) -> None:
    coder = TextEncoder(tokenizer)
    endings = ["cat. The", "hat, the", "mat; it", "word? It", "question! A", "1234 of"]
    draw = random.Random(1)
    text = " ".join(draw.choice(endings) for _ in range(2_000))
    assert coder.ids([text], None)[text].tolist() == tokenizer(text)["input_ids"]
    assert len(coder._words) < 100  # 36 without the boundaries inside of them


@pytest.mark.parametrize("odd", ["", "\u00e9t\u00e9 ", "</s> ", "[x] "])
def test_many_new_words_are_encoded_in_few_strings(tokenizer: Any, odd: str) -> None:
    """Except those that are beyond ASCII, or that have an added token. Only byte-pair
    encodings spell out the text."""
    coder = TextEncoder(tokenizer, span=40)
    strings: list[str] = []
    encode = coder._encode

    def counted(some: list[str], specials: bool | None) -> Any:
        strings.extend(some)
        return encode(some, specials)

    coder._encode = counted  # type: ignore[method-assign]
    draw = random.Random(3)
    words = ["".join(draw.choices("abcdefgh", k=7)) for _ in range(9_000)]
    ends = ["", ",", ".\nB. It"]
    text = " ".join(word + draw.choice(ends) for word in words)
    text = text.replace(" a", f" {odd}a")
    assert coder.ids([text], None)[text].tolist() == tokenizer(text)["input_ids"]
    is_spelled = type(coder._inner.model).__name__ == "BPE"
    assert (len(strings) < 3_000) is is_spelled


def test_words_that_a_failed_call_has_left_are_encoded_by_the_next_one() -> None:
    tokenizer = gpt2()
    coder = TextEncoder(tokenizer, span=4)
    encode = coder._encode
    text = "which of the words is it and what of the hat"

    def failing(some: list[str], specials: bool | None) -> Any:
        if some[0][:1] == " ":
            raise MemoryError
        return encode(some, specials)

    coder._encode = failing  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        coder.ids([text], None)
    coder._encode = encode  # type: ignore[method-assign]
    for one in (text, f"{text} in the cat"):
        assert coder.ids([one], None)[one].tolist() == tokenizer(one)["input_ids"]


@pytest.mark.slow
def test_threads_that_encode_at_a_time_get_the_ids_of_their_texts() -> None:
    tokenizer = gpt2()
    coder = TextEncoder(tokenizer, span=8, least=1)
    draw = random.Random(5)
    batches = [
        [" ".join("".join(draw.choices("abcdef", k=4)) for _ in range(99))] * 2
        for _ in range(200)
    ]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda texts: coder.ids(texts, None), batches))
    for batch, ids in zip(batches, found, strict=True):
        assert ids[batch[0]].tolist() == tokenizer(batch[0])["input_ids"]


def test_shared_beginnings_are_encoded_once() -> None:
    """Counted at the input of the tokenizer."""
    tokenizer = gpt2()
    coder = TextEncoder(tokenizer)
    n_seen = 0
    encode = coder._encode

    def counted(some: list[str], specials: bool | None) -> Any:
        nonlocal n_seen
        n_seen += sum(map(len, some))
        return encode(some, specials)

    coder._encode = counted  # type: ignore[method-assign]
    shots = "Question: which of the words is it\nAnswer: the cat in the hat\n\n" * 40
    heads = [
        f"{shots}Question: what is number {i} of these\nAnswer:" for i in range(50)
    ]
    known = coder.ids(heads, None)
    coder.tails(
        [(head, f" choice {i}") for head in heads for i in range(4)], known, None
    )
    whole = sum(map(len, heads))
    assert n_seen < whole / 3
    assert whole > 50 * 2000
