"""Tiny random models, made in the session: no weights are shipped for these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_evals.models.spec import open_model, parse_spec

WORDS = (
    "the cat sat on a mat and the dog ran to the red house; it was not big, was it? "
    "Question: what is 12 + 7? Answer: 19. Once upon a time there lived an old king "
    "who said hello world to every bird in the garden.\n\nThe end of the story."
)
CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if not loop.last %}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}\n<assistant>{% endif %}"
)


def make_tokenizer(*, bos: bool, chat: str = "") -> object:
    """A byte-level BPE tokenizer; with ``bos`` it puts <s> before each text."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator([WORDS], trainer)
    if bos:
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", inner.token_to_id("<s>"))]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>"
    )
    if chat:
        tokenizer.chat_template = chat
    return tokenizer


def make_model(kind: str) -> object:
    """A random model whose answers are far from even: weights are scaled up."""
    import torch
    from transformers import (
        BloomConfig,
        BloomForCausalLM,
        GPT2Config,
        GPT2LMHeadModel,
        Gemma2Config,
        Gemma2ForCausalLM,
        LlamaConfig,
        LlamaForCausalLM,
        MambaConfig,
        MambaForCausalLM,
        MistralConfig,
        MistralForCausalLM,
    )

    shape = {
        "vocab_size": 330,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
    }
    makers = {
        "gpt2": lambda: GPT2LMHeadModel(
            GPT2Config(
                vocab_size=330,
                n_positions=64,
                n_embd=32,
                n_layer=2,
                n_head=4,
                bos_token_id=0,
                eos_token_id=1,
            )
        ),
        "llama": lambda: LlamaForCausalLM(LlamaConfig(**shape)),
        "mistral": lambda: MistralForCausalLM(MistralConfig(**shape, sliding_window=8)),
        "gemma2": lambda: Gemma2ForCausalLM(
            Gemma2Config(
                **shape, head_dim=8, sliding_window=8, final_logit_softcapping=2.0
            )
        ),
        "bloom": lambda: BloomForCausalLM(
            BloomConfig(
                vocab_size=330,
                hidden_size=32,
                n_layer=2,
                n_head=4,
                bos_token_id=0,
                eos_token_id=1,
            )
        ),
        "mamba": lambda: MambaForCausalLM(
            MambaConfig(
                vocab_size=330,
                hidden_size=32,
                num_hidden_layers=2,
                state_size=4,
                bos_token_id=0,
                eos_token_id=1,
                pad_token_id=1,
            )
        ),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = makers[kind]()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(8.0 if kind != "mamba" else 2.0)
    return model.eval()


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory) -> Callable[[str], Path]:
    """A function from a kind of model to its folder. ``llama`` adds a BOS token to each
    text and has a chat template; the others do neither."""
    folders: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in folders:
            from transformers.utils import logging

            logging.disable_progress_bar()
            path = tmp_path_factory.mktemp("models") / kind
            make_model(kind).save_pretrained(path)
            bos = kind == "llama"
            make_tokenizer(bos=bos, chat=CHAT if bos else "").save_pretrained(path)
            folders[kind] = path
        return folders[kind]

    return folder


@pytest.fixture
def opened(saved_model) -> Iterator[Callable[..., object]]:
    """A function from a kind of model and arguments to the opened model."""

    def model(kind: str, **arguments: object) -> object:
        parts = [f"hf:{saved_model(kind)}", "device=cpu"]
        parts += [f"{name}={value}" for name, value in arguments.items()]
        return open_model(parse_spec(",".join(parts)))

    return model
