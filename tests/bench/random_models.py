"""Create Llama models with random weights and a trained tokenizer.

The cost of a model does not depend on the values of its weights. Needs torch,
transformers and tokenizers, and no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import synthetic_texts

__all__ = ["SIZES", "make_model"]

END = "<|end|>"
LENGTH = 2048
"""The models' maximum length in tokens."""
SPREAD = 0.06
"""Standard deviation of the weights; with the usual 0.02, greedy generations repeat a
few tokens until their limit."""


@dataclass(frozen=True, slots=True)
class Size:
    """The dimensions of a network."""

    vocabulary: int
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int


SIZES = {
    "5m": Size(8_192, 192, 512, 6, 6, 6),
    "60m": Size(16_384, 512, 1_408, 12, 8, 8),
    "1b": Size(32_768, 2_048, 8_192, 16, 32, 8),
}
"""Name → size; 5.8, 55 and 1,107 million parameters."""


def make_model(size: str, folder: Path) -> None:
    """Write a model and its tokenizer into ``folder``, unless they exist."""
    if (folder / "config.json").exists():
        return
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    one = SIZES[size]
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=one.vocabulary,
        hidden_size=one.hidden,
        intermediate_size=one.inner,
        num_hidden_layers=one.layers,
        num_attention_heads=one.heads,
        num_key_value_heads=one.kv_heads,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
        initializer_range=SPREAD,
    )
    folder.mkdir(parents=True, exist_ok=True)
    _make_tokenizer(one.vocabulary, folder)
    LlamaForCausalLM(config).save_pretrained(folder)


def _make_tokenizer(size: int, folder: Path) -> None:
    """Byte-level BPE with the regular expression of GPT-2."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(synthetic_texts.pages(seed=1, n=3_000), trainer)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=LENGTH,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)
