"""The hf model on a CUDA device, compared with the same model on the CPU."""

from __future__ import annotations

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Rolling
from pytest_evals.models.registry import open_model, parse_spec

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

PAIRS = [("the cat sat " * n, " on the mat") for n in range(1, 40)]
REQUESTS = [
    *(Loglikelihood(*pair) for pair in PAIRS),
    Rolling("a text of some length. " * 200),
    *(Generate("the dog " * n, max_tokens=20) for n in range(1, 10)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small random Llama with a byte tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("llama")
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=258,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(path)
    signs = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(signs)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>"
    ).save_pretrained(path)
    return path


def answers(folder, arguments):
    model = open_model(parse_spec(f"hf:{folder},{arguments}"))
    found = dict(model.answer(REQUESTS))
    return [found[i] for i in range(len(REQUESTS))]


@pytest.mark.parametrize("more", ["", ",attn_implementation=sdpa"])
def test_cuda_gives_the_numbers_of_the_cpu(folder, more):
    """``hf.llama`` and, with a setting that it does not have, transformers."""
    expected = answers(folder, "device=cpu")
    found = answers(folder, f"device=cuda{more}")
    for one, other in zip(expected, found, strict=True):
        assert one.error == other.error == ""
        assert one.text == other.text
        if one.logprob is not None:
            assert other.logprob == pytest.approx(one.logprob, rel=1e-4, abs=1e-3)


def test_a_batch_gives_the_numbers_of_single_rows(folder):
    large = answers(folder, "device=cuda")
    single = answers(folder, "device=cuda,batch_size=1")
    for one, other in zip(large, single, strict=True):
        assert one.text == other.text
        if one.logprob is not None:
            assert other.logprob == pytest.approx(one.logprob, rel=1e-4, abs=1e-3)


def test_a_batch_that_is_too_large_for_the_device_is_split(folder):
    """A pool of a few MB simulates a small device."""
    expected = answers(folder, "device=cuda,batch_tokens=2000")
    model = open_model(parse_spec(f"hf:{folder},device=cuda,batch_tokens=100000000"))
    room = torch.cuda.memory_allocated() + 40 * 2**20
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(room / total)
    try:
        found = dict(model.answer(REQUESTS))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    for i, one in enumerate(expected):
        assert found[i].error == ""
        assert found[i].text == one.text
