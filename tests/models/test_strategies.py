"""The fast paths to log-probabilities compared with the plain one, and their selection.

The expected paths were measured before the engine was built, with transformers 5.23:
packed rows with a custom attention function or masks, cached prefixes with the model's
own masks, or neither.
"""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evals.core.request import Generate, Loglikelihood
from pytest_evals.models.engine.device_memory import BatchBudget
from pytest_evals.models.hf.forward import Forward, TokenCounts
from pytest_evals.models.hf.scoring.packing import RowShape
from pytest_evals.models.hf.scoring.padded_strategy import PaddedStrategy
from pytest_evals.models.hf.scoring.replaced_attention import replaced_attention
from pytest_evals.models.hf.scoring.strategies import _candidates, choose_strategy
from pytest_evals.models.tokens.spans import ScoredSpan
from tests.models.live_memory import LiveMemory

PATHS = {
    "gpt2": "cascade",
    "llama": "cascade",
    "qwen3": "cascade",
    "mistral": "cascade",
    "gemma2": "cascade",
    "gemma3": "cascade",
    "gpt_oss": "cascade",
    "opt": "cascade",
    "phi": "cascade",
    "gpt_neox": "cascade",
    "mixtral": "cascade",
    "olmo2": "cascade",
    "bloom": "prefix",
    "falcon": "prefix",
    "mamba": "plain",
    "qwen3_moe": "cascade",
    "deepseek_v3": "cascade",
    "llama4": "cascade",
    "cohere2": "cascade",
    "gemma3n": "cascade",
    "falcon_rotary": "cascade",
    "gptj": "cascade",
    "doge": "cascade",
    "doge_wide": "cascade",
    "jetmoe": "cascade",
    "diffllama": "cascade",
    "xglm": "cascade",
    "deepseek_v32": "cascade",
    "hy_v4": "cascade",
    "gpt_neo": "prefix",
    "qwen3_next": "plain",
    "jamba": "plain",
    "rwkv": "plain",
}
LINED_UP = ("doge", "jetmoe", "diffllama")
"""Families with layers that change cached keys and values before attention."""
PREFIX = "the cat sat on the mat and the dog sat on the big world "
PAIRS = [
    *((PREFIX, end) for end in (" and", " and the dog", " and the", "hello", " is")),
    *((PREFIX + " hello world", end) for end in (" king", " k", "ing")),
    ("hello", " world"),
    ("hello world and the cat and the dog", " is big"),
    ("a", "b"),
    ("", "hello world"),
    (PREFIX * 3, " sat on"),
]


@pytest.mark.parametrize("kind", PATHS)
def test_every_architecture_takes_its_path_and_gives_the_numbers_of_one_at_a_time(
    kind, opened, oracle, ask
):
    """Sequences are longer than the sliding windows, of 8 tokens, and contain words
    twice, of which sparse attention selects either."""
    for budget in ({}, {"batch_tokens": 32}):
        model = opened(kind, **budget)
        assert model.info["scoring_path"] == PATHS[kind]
        found = ask(model, *(Loglikelihood(*pair) for pair in PAIRS))
        for pair, response in zip(PAIRS, found, strict=True):
            logprob, greedy = oracle(kind).loglikelihood(*pair)
            assert response.error == ""
            assert response.logprob == pytest.approx(logprob, abs=1e-4)
            assert response.greedy is greedy


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "llama",
        *(
            pytest.param(k, marks=pytest.mark.nightly)
            for k in ("mistral", "gemma2", "bloom")
        ),
    ],
)
def test_a_context_that_is_longer_than_a_batch_may_be_is_read_in_parts(
    kind, saved_model, oracle, ask, monkeypatch
):
    """More than 40 tokens, which 300 continuations share; at most 20 are processed at a
    time."""
    from pytest_evals.models.hf.scoring import prefix_strategy as grouped
    from pytest_evals.models.registry import open_model, parse_spec

    monkeypatch.setattr(grouped, "SMALLEST_PART", 4)
    spec = f"hf:{saved_model(kind)},device=cpu,batch_tokens=16"
    model = open_model(parse_spec(spec))
    context = "the cat sat on the mat " * 8
    pairs = [(context, f" {i} is it {i} on the big") for i in range(100, 400)]
    widths: list[int] = []

    def look(module, args, kwargs):
        widths.append(kwargs["input_ids"].shape[1])

    body = model._engine._model.base_model
    handle = body.register_forward_pre_hook(look, with_kwargs=True)
    found = ask(model, *(Loglikelihood(*pair) for pair in pairs))
    handle.remove()
    assert found[0].n_prompt_tokens > 40
    assert max(r.n_tokens for r in found) < 20
    assert max(widths) <= 20
    for pair, response in list(zip(pairs, found, strict=True))[::20]:
        logprob, greedy = oracle(kind).loglikelihood(*pair)
        assert response.logprob == pytest.approx(logprob, abs=1e-4)
        assert response.greedy is greedy


@pytest.mark.parametrize("kind", ["phi3", "dynamic", "llama4_sharp"])
def test_positions_that_are_scaled_in_long_sequences_are_those_of_the_sequence_alone(
    kind, opened, oracle, ask
):
    """Above 24 tokens the scale changes; transformers takes it from the longest
    sequence of a batch."""
    pairs = [("the " * n + "cat", end) for n in (3, 22, 23, 24, 40, 60) for end in "ab"]
    model = opened(kind, max_length=64)
    assert model.info["scoring_path"] == "cascade"
    alone = []
    for pair in pairs:
        oracle(kind).loglikelihood("a", "b")  # the scale is reset
        alone.append(oracle(kind).loglikelihood(*pair))
    for budget in ({}, {"batch_tokens": 32}):
        model = opened(kind, max_length=64, **budget)
        found = ask(model, *(Loglikelihood(*pair) for pair in pairs))
        for (logprob, greedy), response in zip(alone, found, strict=True):
            assert response.logprob == pytest.approx(logprob, abs=1e-4)
            assert response.greedy is greedy


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 512])
def test_an_attention_that_grows_sharper_by_columns_gives_the_numbers_of_one_at_a_time(
    width, models, monkeypatch
):
    """As Llama 4's from the 8,192nd column on, here from the 25th: packed rows have
    more columns than their sequences have positions."""
    from pytest_evals.models.hf.scoring import strategies as paths

    plain = models("llama4_sharp")
    monkeypatch.setattr(paths, "OTHER_SHAPE", RowShape(width=width, gain=1))
    path = choose_strategy(plain, 64).path
    assert path.name == "cascade"
    draw = np.random.default_rng(5)
    prefix = draw.integers(2, 330, 8)
    spans = [
        ScoredSpan(
            np.concatenate([prefix, draw.integers(2, 330, n)]).astype(np.int32), 2
        )
        for n in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 25, 30, 36)
    ]
    found = answers(path, spans, 1000)
    for span, one in zip(spans, found, strict=True):
        expected, greedy = alone(plain.forward.model, span)
        assert one.logprob == pytest.approx(expected, abs=1e-4)
        assert one.greedy is greedy
    shape = RowShape(width=512, gain=1)
    unaware = answers(path_of(plain, "packed", shape), spans, 1000)
    apart = [abs(a.logprob - b.logprob) for a, b in zip(found, unaware, strict=True)]
    assert max(apart) > 0.01  # the case distinguishes the two


@pytest.mark.parametrize("attention", ["flash_attention_2", "flash_attention_3"])
def test_a_flash_kernel_is_not_tried_with_masks(models, attention):
    """Some of them abort the device's context, which no self-test survives."""
    plain = models("llama")
    config = plain.forward.model.config
    usual = config._attn_implementation_internal
    config._attn_implementation_internal = attention
    try:
        names = [candidate.name for candidate in _candidates(plain.forward)]
    finally:
        config._attn_implementation_internal = usual
    assert names == ["prefix"]


def test_a_model_may_have_input_tokens_that_it_cannot_output(saved_model):
    """As vision models have for images (transformers, ``MllamaForCausalLM``)."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(saved_model("llama"))
    usual = model.model.embed_tokens.weight.data
    model.set_input_embeddings(torch.nn.Embedding(len(usual) + 800, usual.shape[1]))
    model.model.embed_tokens.weight.data[: len(usual)] = usual
    plain = PaddedStrategy(Forward(model.eval()), TokenCounts())
    assert choose_strategy(plain, 64).path.name == "cascade"


@pytest.mark.parametrize("kind", ["bloom", "mamba"])
def test_a_slower_strategy_is_reported(kind, saved_model, ask):
    from pytest_evals.models.registry import open_model, parse_spec

    model = open_model(parse_spec(f"hf:{saved_model(kind)}"))
    ask(model, Generate("the", max_tokens=1))
    assert model.notes == ()
    ask(model, Loglikelihood("the", " cat"))
    (note,) = model.notes
    assert note.startswith("log-likelihoods ")
    assert "which takes longer" in note
    assert "\n" not in note


def test_only_tokens_that_responses_need_are_counted(saved_model, oracle, ask):
    from pytest_evals.models.registry import open_model, parse_spec

    model = open_model(parse_spec(f"hf:{saved_model('gpt2')}"))
    assert model.counters == {"n_read": 0, "n_padding": 0}
    ask(model, Loglikelihood("hello", " world"), Loglikelihood("hello", " king"))
    n = len(oracle("gpt2").tokenizer.encode("hello world"))
    assert n == 2
    assert model.counters == {"n_read": 1, "n_padding": 0}


def test_the_fast_strategy_is_not_reported(opened, ask):
    model = opened("gpt2", anew=True)
    ask(model, Loglikelihood("the", " cat"))
    assert model.notes == ()


@pytest.fixture(scope="module")
def models(saved_model):
    """A function from a kind of model to its plain path; "ours" is a Llama of a class
    of this package."""
    import transformers

    from pytest_evals.models.hf.loader import load
    from pytest_evals.models.hf.settings import HfSettings

    known = {}

    def plain(kind):
        if kind not in known:
            if kind == "ours":
                model = load(HfSettings(target=str(saved_model("llama")))).model
                assert not isinstance(model, transformers.PreTrainedModel)
            else:
                model = transformers.AutoModelForCausalLM.from_pretrained(
                    saved_model(kind)
                )
            known[kind] = PaddedStrategy(Forward(model.eval()), TokenCounts())
        return known[kind]

    return plain


def answers(path, spans, budget):
    found = {}
    for done in path.score(spans, BatchBudget(budget)):
        assert not found.keys() & done.scored.keys()
        found.update(done.scored)
    assert sorted(found) == list(range(len(spans)))
    return [found[i] for i in range(len(spans))]


def path_of(plain, name, shape):
    """As in the self-test: with cascade attention after short prefixes too."""
    ways = [way for way in _candidates(plain.forward) if way.name == name]
    way = ways[-1 if plain.forward.model.config.model_type in LINED_UP else 0]
    return way.tried.path(plain, shape)


def alone(model, span):
    """The definition: one sequence, every logit, float64."""
    ids = torch.as_tensor(span.tokens, dtype=torch.long)
    with torch.no_grad():
        logits = model(ids[None, :-1]).logits[0].double()
    shares = logits.log_softmax(-1)[-span.n_scored :]
    targets = ids[-span.n_scored :]
    total = float(shares.gather(1, targets[:, None]).sum())
    return total, bool((shares.argmax(-1) == targets).all())


@st.composite
def line_sets(draw):
    """Sequences of few different tokens, many of which extend one another."""
    tokens = st.integers(5, 7)
    sequences = draw(
        st.lists(st.lists(tokens, min_size=2, max_size=12), min_size=1, max_size=5)
    )
    for _ in range(draw(st.integers(0, 12))):
        base = draw(st.sampled_from(sequences))
        kept = base[: draw(st.integers(0, len(base)))]
        more = draw(st.lists(tokens, min_size=2, max_size=20))
        sequences.append((kept + more)[:65])
    return [
        ScoredSpan(np.array(s, dtype=np.int32), draw(st.integers(1, len(s) - 1)))
        for s in sequences
    ]


shapes = st.builds(
    RowShape,
    width=st.sampled_from([1, 8, 24, 512]),
    gain=st.sampled_from([1, 10, 128]),
    multiple=st.sampled_from([1, 8]),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("llama", "packed"),
        ("gemma3", "packed"),
        ("llama", "cascade"),
        ("gemma3", "cascade"),
        ("gemma3n", "cascade"),
        ("gpt_oss", "cascade"),
        ("llama4", "cascade"),
        ("ours", "cascade"),
        ("deepseek_v3", "cascade"),
        ("falcon_rotary", "cascade"),
        ("gptj", "cascade"),
        ("doge_wide", "cascade"),
        ("jetmoe", "cascade"),
        ("diffllama", "cascade"),
        ("xglm", "cascade"),
        ("ours", "packed"),
        ("gpt2", "prefix"),
        ("bloom", "prefix"),
    ],
)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(spans=line_sets(), shape=shapes, budget=st.sampled_from([1, 7, 40, 10_000]))
def test_fast_is_plain_is_one_at_a_time(kind, name, spans, shape, budget, models):
    plain = models(kind)
    fast = path_of(plain, name, shape)
    first = answers(fast, spans, budget)
    again = answers(fast, spans[::-1], budget)[::-1]  # over the first one's cache
    slow = answers(plain, spans, budget)
    assert fast.n_alone == 0
    for span, *found in zip(spans, first, again, slow, strict=True):
        logprob, greedy = alone(plain.forward.model, span)
        for one in found:
            assert one.finite
            assert one.logprob == pytest.approx(logprob, abs=1e-4)
            assert one.greedy is greedy


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "kind",
    [
        *("gpt2", "llama", "gemma3", "gpt_oss", "falcon"),
        *("deepseek_v3", "falcon_rotary", "gptj"),
        *("doge_wide", "jetmoe", "diffllama", "xglm"),
    ],
)
def test_half_precision_is_as_far_from_plain_as_plain_is_from_float32(
    kind, dtype, saved_model
):
    """The rounding error of the dtype only: a wrong mask changes these numbers by half
    a nat or more."""
    import transformers

    found = {}
    draw = np.random.default_rng(3)
    prefix = draw.integers(2, 330, 30)
    spans = [
        ScoredSpan(
            np.concatenate([prefix, draw.integers(2, 330, n)]).astype(np.int32), 2
        )
        for n in (3, 4, 5, 9, 12, 20, 30)
    ]
    for type_ in (torch.float32, dtype):
        model = transformers.AutoModelForCausalLM.from_pretrained(
            saved_model(kind), dtype=type_
        )
        plain = PaddedStrategy(Forward(model.eval()), TokenCounts())
        choice = choose_strategy(plain, 64)
        assert choice.path.name == PATHS[kind]
        fast = path_of(plain, PATHS[kind], RowShape(width=16, gain=1))
        found[type_] = [
            np.array([one.logprob for one in answers(path, spans, 1000)])
            for path in (fast, plain)
        ]
    fast, plain = found[dtype]
    exact = found[torch.float32][1]
    rounding = np.abs(plain - exact).max()
    assert np.abs(fast - exact).max() < 3 * rounding


def test_choosing_a_path_leaves_all_random_numbers_as_they_were(models):
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    assert choose_strategy(models("gemma3"), 64).path.name == "cascade"
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


@pytest.mark.slow
def test_a_mask_that_a_model_takes_for_something_else_is_noticed(models, monkeypatch):
    """Boolean masks are numbers to eager attention, which then attends to everything
    nearly equally; a forgotten window or visible siblings: each gives another number,
    not an error."""
    from pytest_evals.models.hf.scoring import cascade_attention
    from pytest_evals.models.hf.scoring import strategies as paths

    real = paths.masks

    def boolean(*given):
        built = real(*given)
        return {kind: mask == 0 for kind, mask in built.items()}

    def without_windows(kinds, *given):
        return real(dict.fromkeys(kinds, 0), *given)

    def with_siblings(kinds, ends, *given):
        return real(kinds, torch.full_like(ends, ends.shape[1]), *given)

    for kind, wrong in (
        ("gemma2", boolean),
        ("gpt_oss", boolean),
        ("gemma3", without_windows),
        ("mistral", without_windows),
        ("llama", with_siblings),
    ):
        for module in (paths, cascade_attention):
            monkeypatch.setattr(module, "masks", wrong)
        assert choose_strategy(models(kind), 64).path.name == "prefix", (kind, wrong)
        for module in (paths, cascade_attention):
            monkeypatch.setattr(module, "masks", real)
        assert choose_strategy(models(kind), 64).path.name == "cascade"


def test_shared_tokens_are_read_once(models):
    """40 questions with 4 answers each after one prefix of 30 tokens."""
    draw = np.random.default_rng(5)
    prefix = draw.integers(2, 330, 30)
    spans = []
    for _ in range(40):
        question = np.concatenate([prefix, draw.integers(2, 330, 10)])
        for first in range(2, 6):
            answer = np.concatenate([[first], draw.integers(2, 330, 3)])
            spans.append(
                ScoredSpan(np.concatenate([question, answer]).astype(np.int32), 4)
            )
    unique = len({tuple(x.tokens[:k]) for x in spans for k in range(1, len(x.tokens))})
    forward = models("llama").forward
    counters = TokenCounts()
    plain = PaddedStrategy(forward, counters)
    fast = path_of(plain, "packed", RowShape(width=128, gain=64))
    answers(fast, spans, 1024)
    assert unique <= counters.n_read - counters.n_padding <= 1.1 * unique
    assert counters.n_padding < 0.1 * counters.n_read
    read = counters.n_read
    answers(plain, spans, 1024)
    assert counters.n_read - read == sum(len(span.tokens) - 1 for span in spans)


def test_a_prefix_is_cached_for_the_next_window_and_released_on_request(models):
    draw = np.random.default_rng(5)
    prefix = draw.integers(2, 330, 30)
    spans = [
        ScoredSpan(
            np.concatenate([prefix, draw.integers(2, 330, 9)]).astype(np.int32), 2
        )
        for _ in range(20)
    ]
    counters = TokenCounts()
    plain = PaddedStrategy(models("llama").forward, counters)
    fast = path_of(plain, "packed", RowShape(width=64, gain=10))
    read = []
    for some in (spans[:10], spans[10:], spans[:10]):
        before = counters.n_read - counters.n_padding
        answers(fast, some, 1024)
        read.append(counters.n_read - counters.n_padding - before)
        if len(read) == 2:
            fast.forget()
    assert read == [30 + 10 * 8, 10 * 8, 30 + 10 * 8]


def test_a_few_sequences_of_the_next_window_use_the_cached_prefix(models):
    """Although they fit into one row with their prefix, and prefixes of 30 other tokens
    come before it in the order of their ids."""
    draw = np.random.default_rng(5)

    def spans(prefix, n):
        return [
            ScoredSpan(
                np.concatenate([prefix, draw.integers(2, 330, 9)]).astype(np.int32), 2
            )
            for _ in range(n)
        ]

    later, earlier = np.full(30, 301), np.full(30, 45)
    counters = TokenCounts()
    plain = PaddedStrategy(models("llama").forward, counters)
    fast = path_of(plain, "packed", RowShape(width=64, gain=10))
    read = []
    for some in (
        spans(later, 10),
        spans(later, 2),
        [*spans(earlier, 10), *spans(later, 2)],
    ):
        before = counters.n_read - counters.n_padding
        found = answers(fast, some, 1024)
        read.append(counters.n_read - counters.n_padding - before)
        for span, one in zip(some, found, strict=True):
            expected, _ = alone(plain.forward.model, span)
            assert one.logprob == pytest.approx(expected, abs=1e-4)
    assert read == [30 + 10 * 8, 2 * 8, 30 + 12 * 8]


def test_nan_logits_of_one_row_do_not_affect_others(saved_model):
    """In a packed row its keys are visible to all: the plain path decides."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(saved_model("gpt2"))
    with torch.no_grad():
        model.transformer.wpe.weight[20] = torch.nan
    plain = PaddedStrategy(Forward(model.eval()), TokenCounts())
    fast = path_of(plain, "packed", RowShape(width=512, gain=128))
    spans = [
        ScoredSpan(np.arange(start, start + n, dtype=np.int32), 2)
        for start, n in ((5, 10), (5, 30), (50, 20), (90, 40))
    ]
    found = answers(fast, spans, 1000)
    assert [one.finite for one in found] == [True, False, True, False]
    for span, one in zip(spans, found, strict=True):
        if one.finite:
            assert one.logprob == pytest.approx(alone(model, span)[0], abs=1e-4)


def test_a_lack_of_memory_leaves_the_rest_as_it_was(models, monkeypatch):
    """The model rejects more than some tokens at a time, the prefix included: rows get
    shorter, then the prefix is given up, then sequences fail one by one."""
    plain = models("llama")
    draw = np.random.default_rng(9)
    prefix = draw.integers(2, 330, 20)
    spans = [
        ScoredSpan(
            np.concatenate([prefix, draw.integers(2, 330, n)]).astype(np.int32), 2
        )
        for n in range(3, 43)
    ]
    expected = answers(plain, spans, 10_000)
    body = plain.forward.model.model
    real = body.forward
    for room in (200, 60, 40):

        def forward(input_ids, room=room, **given):
            past = given.get("past_key_values")
            width = input_ids.shape[1] + (past.get_seq_length() if past else 0)
            if input_ids.shape[0] * width > room:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return real(input_ids=input_ids, **given)

        monkeypatch.setattr(body, "forward", forward)
        fast = path_of(plain, "packed", RowShape(width=64, gain=10))
        found = answers(fast, spans, 10_000)
        for span, one, other in zip(spans, found, expected, strict=True):
            if len(span.tokens) - 1 > room:
                assert "do not fit into the device's memory" in str(one)
            else:
                assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
                assert one.greedy is other.greedy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *(("llama", 512), ("mistral", 512), ("gemma2", 512)),
        *(("gptj", 1024), ("falcon_rotary", 1024), ("deepseek_v3", 960)),
        *(("xglm", 1024), ("jetmoe", 640), ("diffllama", 512), ("doge_wide", 832)),
    ],
)
def test_memory_of_a_batch_does_not_grow_with_the_prefix(
    kind, size, saved_model, monkeypatch
):
    """Eight rows of 128 tokens after prefixes of 512 and 4,096 tokens. Keys and values
    of a token take so many bytes: in two layers, in the cache and again while a part is
    added; in one layer, where they are compressed in the cache or changed after it.
    Masks over both would take 4,096 bytes a token more."""
    import transformers

    from pytest_evals.models.hf.scoring import cascade_attention

    monkeypatch.setattr(cascade_attention, "PART_CELLS", {"cpu": 2**17})
    config = transformers.AutoConfig.from_pretrained(saved_model(kind))
    config.max_position_embeddings = 8192
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    plain = PaddedStrategy(Forward(model), TokenCounts())
    draw = np.random.default_rng(2)
    peaks = []
    for depth in (512, 4096):
        prefix = draw.integers(2, 330, depth)
        spans = [
            ScoredSpan(np.append(prefix, draw.integers(2, 330, 16)).astype(np.int32), 1)
            for _ in range(64)
        ]
        path = path_of(plain, "cascade", RowShape(width=128, gain=10))
        with LiveMemory() as memory:
            answers(path, spans, 1024)
        peaks.append(memory.peak)
    assert peaks[1] - peaks[0] < 1.05 * size * (4096 - 512)


def documents(n_docs, depth):
    """Documents with contexts of their own; each has 8 continuations of 12 tokens."""
    draw = np.random.default_rng(3)
    spans = []
    for i in range(n_docs):
        context = draw.integers(2, 330, depth + i % 3)
        spans += [
            ScoredSpan(
                np.append(context, draw.integers(2, 330, 12)).astype(np.int32), 9
            )
            for _ in range(8)
        ]
    return spans


def widths_of_passes(body, run):
    """Rows and columns of each pass of the model, and the result of ``run``."""
    shapes = []
    handle = body.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)),
        with_kwargs=True,
    )
    found = run()
    handle.remove()
    return shapes, found


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind, path in PATHS.items()
        # These select 8 tokens; longer sequences are scored in another way.
        if path == "cascade" and kind not in ("deepseek_v32", "doge")
    ],
)
def test_rows_of_several_prefixes_share_a_pass(kind, models):
    """Five contexts, longer than the windows of 8 tokens and two of them of different
    lengths: one pass for each context, one for all continuations."""
    plain = models(kind)
    spans = documents(5, 16)
    path = path_of(plain, "cascade", RowShape(width=48, gain=10))
    shapes, found = widths_of_passes(
        plain.forward.model.base_model, lambda: answers(path, spans, 2**14)
    )
    assert path.n_alone == 0
    assert [rows for rows, _ in shapes[:-1]] == [1] * 5
    assert shapes[-1][0] == 5 * 2  # contexts times rows of at most 48 tokens
    slow = answers(plain, spans, 2**14)
    for span, one, other in zip(spans, found, slow, strict=True):
        logprob, greedy = alone(plain.forward.model, span)
        assert one.logprob == pytest.approx(logprob, abs=1e-4)
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert one.greedy is greedy


@pytest.mark.parametrize(
    ("budget", "gain", "n_passes"),
    [(2**14, 10, 3 + 1), (400, 10, 2 * 3), (2**14, 1000, 1)],
)
def test_prefixes_share_a_pass_if_a_batch_holds_them_and_their_rows(
    budget, gain, n_passes, models
):
    """Three contexts of 100 tokens with 96 tokens each: within the budget together, or
    only one at a time; or recomputed in each row, if that is worth less than a pass."""
    plain = models("llama")
    path = path_of(plain, "cascade", RowShape(width=48, gain=gain))
    body = plain.forward.model.base_model
    shapes, _ = widths_of_passes(body, lambda: answers(path, documents(3, 100), budget))
    assert len(shapes) == n_passes


@pytest.mark.slow
def test_memory_of_several_prefixes_is_that_of_their_keys_and_values(saved_model):
    """Rows of 96 tokens after 2 and after 10 prefixes of 1,024 tokens, in one pass each
    time. Keys and values of a token take 256 bytes; masks of all rows over all prefixes
    would take 39 MB."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(saved_model("llama"))
    config.max_position_embeddings = 8192
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    plain = PaddedStrategy(Forward(model), TokenCounts())
    peaks, n_passes = [], []
    for n_docs in (2, 10):
        path = path_of(plain, "cascade", RowShape(width=96, gain=10))
        spans = documents(n_docs, 1024)
        with LiveMemory() as memory:
            shapes, _ = widths_of_passes(
                model.base_model, partial(answers, path, spans, 2**15)
            )
        peaks.append(memory.peak)
        n_passes.append(len(shapes))
    assert n_passes == [2 + 1, 10 + 1]
    kept = 256 * 8 * 1026
    assert peaks[1] - peaks[0] < 1.5 * kept


def test_the_self_test_notices_rows_that_attend_to_the_prefix_of_others(
    models, monkeypatch
):
    from pytest_evals.models.hf.scoring import strategies

    real = strategies.CascadeAttention
    n_prefixes = set()

    def mixed_up(config, kinds, rows, prefixes, lined_up):
        n_prefixes.add(len(prefixes))
        return real(config, kinds, rows, [prefixes[0]] * len(prefixes), lined_up)

    for kind in ("llama", "mistral", "gemma3"):
        monkeypatch.setattr(strategies, "CascadeAttention", mixed_up)
        assert choose_strategy(models(kind), 64).path.name == "packed"
        monkeypatch.setattr(strategies, "CascadeAttention", real)
        assert choose_strategy(models(kind), 64).path.name == "cascade"
    assert n_prefixes == {1, 2}


@pytest.mark.parametrize(
    "kind", ["llama", "falcon", "falcon_rotary", "gptj", "doge", "xglm"]
)
def test_a_model_keeps_its_own_attention_outside_of_the_strategies(kind, models):
    """After a self-test that replaces it, whether that is correct or not."""
    model = models(kind).forward.model
    span = documents(1, 20)[0]
    before = alone(model, span)
    own = [dict(vars(module)) for module in model.modules()]
    usual = model.config._attn_implementation
    choose_strategy(models(kind), 64)
    assert [vars(module) for module in model.modules()] == own
    assert model.config._attn_implementation == usual
    assert alone(model, span) == before


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["Llama", "Falcon", "DeepseekV3", "Doge"])
def test_a_prefix_of_32_thousand_tokens_is_scored_in_little_memory(family):
    """Compared with the model's own attention to small parts of the prefix; masks over
    the prefix alone would take 32,768 x 8,192 cells in the prefill of a part."""
    import transformers

    settings = {
        "Llama": {"intermediate_size": 16},
        "Falcon": {"alibi": False},
        "Doge": {"intermediate_size": 16, "keep_window_size": 40_000},
        "DeepseekV3": {
            "intermediate_size": 16,
            "num_key_value_heads": 2,
            "first_k_dense_replace": 1,
            "qk_nope_head_dim": 4,
            "qk_rope_head_dim": 4,
            "v_head_dim": 4,
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
        },
    }
    config = getattr(transformers, f"{family}Config")(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=40_000,
        **settings[family],
    )
    torch.manual_seed(4)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    plain = PaddedStrategy(Forward(model), TokenCounts())
    draw = np.random.default_rng(2)
    prefix = draw.integers(2, 64, 32_768)
    spans = [
        ScoredSpan(
            np.concatenate([prefix, draw.integers(2, 64, 8)]).astype(np.int32), 2
        )
        for _ in range(50)
    ]
    path = path_of(plain, "cascade", RowShape(width=512, gain=128))
    with LiveMemory() as memory:
        found = answers(path, spans, 8192)
    assert path.n_alone == 0
    assert memory.peak < 64 * 2**20
    usual = path_of(plain, "prefix", RowShape(width=512, gain=128))
    for one, other in zip(found[:4], answers(usual, spans[:4], 512), strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)


def test_a_part_of_a_layer_that_is_called_attn_is_kept():
    layer = torch.nn.Module()
    layer.layer_idx, layer._attn = 0, torch.nn.Linear(2, 2)
    part = layer._attn
    with replaced_attention(layer, None, past=object()):
        pass
    assert layer._attn is part
