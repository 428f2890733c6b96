"""Tiny random models, created in the session: no weights are shipped for these
tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_evals.core.request import Response
from pytest_evals.models.registry import open_model, parse_spec

MERGES = (
    "t h,th e,Ġ the,a t,Ġ c,Ġc at,Ġ s,Ġs at,i n,Ġ a,Ġa n,Ġan d,h e,l l,he ll,hell o,"
    "Ġ w,Ġw o,r l,Ġwo rl,Ġworl d,o n,Ġ on,o g,Ġ d,Ġd og,e r,Ġ i,Ġi s,Ġi t,Ġ ?,i s,"
    "Q u,e s,Qu es,t i,ti on,Ques tion,A n,An s,w er,Ans wer,Ċ Ċ,Ġ Ġ,o u,Ġ m,Ġm at,"
    "Ġ b,Ġb i,Ġbi g,Ġ k,in g,Ġk ing,Ġ n,Ġn o,Ġno t"
)
"""Merges of the tokenizer, set by hand: a trained one may differ between versions."""
CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\n<assistant>' }}{% endif %}"
)


def make_tokenizer(*, bos: bool, chat: str = "") -> object:
    """A byte-level BPE tokenizer; with ``bos`` it puts <s> before each text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pairs = [tuple(merge.split(" ")) for merge in MERGES.split(",")]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<s>", "</s>", *alphabet, *("".join(pair) for pair in pairs)]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(words))}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    inner.add_special_tokens(["<s>", "</s>"])
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
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


def large_makers(
    shape: dict[str, int], ours: dict[str, int]
) -> dict[str, Callable[[], object]]:
    """Families of large models: with experts, compressed keys and values, layers of
    several kinds, or sizes that differ between layers."""
    import transformers as hf

    experts = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
    two_kinds = {"sliding_window": 8, "head_dim": 8}
    layers = ["sliding_attention", "full_attention"]
    four = {**shape, "num_hidden_layers": 4}
    llama4 = {
        **shape,
        "head_dim": 8,
        "attention_chunk_size": 16,
        "intermediate_size_mlp": 64,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "layer_types": ["chunked_attention", "full_attention"],
        "no_rope_layers": [1, 0],
    }
    linear = ["linear_attention", "full_attention"]
    return {
        "qwen3_moe": lambda: hf.Qwen3MoeForCausalLM(
            hf.Qwen3MoeConfig(**shape, **experts, num_experts=4, head_dim=8)
        ),
        "qwen3_next": lambda: hf.Qwen3NextForCausalLM(
            hf.Qwen3NextConfig(
                **shape,
                **experts,
                num_experts=4,
                head_dim=8,
                layer_types=linear,
                linear_num_value_heads=4,
                linear_num_key_heads=2,
                linear_key_head_dim=8,
                linear_value_head_dim=8,
                shared_expert_intermediate_size=32,
            )
        ),
        "deepseek_v3": lambda: hf.DeepseekV3ForCausalLM(
            hf.DeepseekV3Config(
                **{**shape, "num_key_value_heads": 4},
                **experts,
                kv_lora_rank=16,
                q_lora_rank=16,
                qk_rope_head_dim=4,
                qk_nope_head_dim=8,
                v_head_dim=8,
                n_routed_experts=4,
                first_k_dense_replace=1,
                n_group=2,
                topk_group=1,
            )
        ),
        "deepseek_v32": lambda: hf.DeepseekV32ForCausalLM(
            hf.DeepseekV32Config(
                **{**shape, "num_key_value_heads": 4},
                **experts,
                head_dim=4,
                kv_lora_rank=16,
                q_lora_rank=16,
                qk_rope_head_dim=4,
                qk_nope_head_dim=8,
                v_head_dim=8,
                n_routed_experts=4,
                n_group=2,
                topk_group=1,
                index_topk=8,
                index_n_heads=2,
                index_head_dim=8,
            )
        ),
        "hy_v4": lambda: hf.HYV4ForCausalLM(
            hf.HYV4Config(
                **{**shape, "num_key_value_heads": 4},
                moe_intermediate_size=32,
                num_experts_per_tok=2,
                n_routed_experts=4,
                head_dim=12,
                kv_lora_rank=16,
                q_lora_rank=16,
                qk_rope_head_dim=4,
                qk_nope_head_dim=8,
                v_head_dim=8,
                index_topk=40,
                index_n_heads=2,
                index_head_dim=8,
            )
        ),
        "doge": lambda: hf.DogeForCausalLM(hf.DogeConfig(**shape, keep_window_size=8)),
        "doge_wide": lambda: hf.DogeForCausalLM(hf.DogeConfig(**shape)),
        "jetmoe": lambda: hf.JetMoeForCausalLM(
            hf.JetMoeConfig(
                **{**shape, "num_attention_heads": 4},
                kv_channels=8,
                num_local_experts=4,
                num_experts_per_tok=2,
            )
        ),
        "diffllama": lambda: hf.DiffLlamaForCausalLM(hf.DiffLlamaConfig(**shape)),
        "xglm": lambda: hf.XGLMForCausalLM(
            hf.XGLMConfig(
                vocab_size=330,
                max_position_embeddings=64,
                d_model=32,
                ffn_dim=64,
                num_layers=2,
                attention_heads=4,
                scale_embedding=False,
                bos_token_id=0,
                eos_token_id=1,
                pad_token_id=1,
            )
        ),
        "gpt_neo": lambda: hf.GPTNeoForCausalLM(
            hf.GPTNeoConfig(
                **ours,
                num_heads=4,
                intermediate_size=64,
                max_position_embeddings=64,
                attention_types=[[["global", "local"], 1]],
                # longer than the self-test at load time
                window_size=40,
            )
        ),
        "llama4": lambda: hf.Llama4ForCausalLM(hf.Llama4TextConfig(**llama4)),
        "llama4_sharp": lambda: hf.Llama4ForCausalLM(
            hf.Llama4TextConfig(**llama4, floor_scale=25, attn_scale=2.0)
        ),
        "cohere2": lambda: hf.Cohere2ForCausalLM(
            hf.Cohere2Config(**shape, **two_kinds, layer_types=layers, logit_scale=1.0)
        ),
        "gemma3n": lambda: hf.Gemma3nForCausalLM(
            hf.Gemma3nTextConfig(
                **{**four, **two_kinds, "intermediate_size": [64] * 4},
                layer_types=layers * 2,
                vocab_size_per_layer_input=330,
                hidden_size_per_layer_input=8,
                num_kv_shared_layers=2,
                laurel_rank=4,
                altup_num_inputs=2,
                activation_sparsity_pattern=[0.0] * 4,
            )
        ),
        "falcon_rotary": lambda: hf.FalconForCausalLM(
            hf.FalconConfig(
                **ours,
                num_attention_heads=4,
                num_kv_heads=2,
                alibi=False,
                new_decoder_architecture=True,
            )
        ),
        "gptj": lambda: hf.GPTJForCausalLM(
            hf.GPTJConfig(
                vocab_size=330,
                n_positions=64,
                n_embd=32,
                n_layer=2,
                n_head=4,
                rotary_dim=4,
                bos_token_id=0,
                eos_token_id=1,
            )
        ),
        "jamba": lambda: hf.JambaForCausalLM(
            hf.JambaConfig(
                **shape,
                num_experts=1,
                num_experts_per_tok=1,
                attn_layer_period=2,
                attn_layer_offset=1,
                mamba_d_state=4,
                mamba_dt_rank=4,
                use_mamba_kernels=False,
            )
        ),
        "rwkv": lambda: hf.RwkvForCausalLM(
            hf.RwkvConfig(**ours, context_length=64, attention_hidden_size=32)
        ),
    }


def make_model(kind: str) -> object:
    """A random model whose answers are far from uniform."""
    import numpy as np
    import torch
    import transformers as hf

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
    old = {"vocab_size": 330, "bos_token_id": 0, "eos_token_id": 1}
    window = {**shape, "sliding_window": 8}
    two_kinds = {**window, "head_dim": 8}
    layers = ["sliding_attention", "full_attention"]
    gpt2 = {**old, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    ours = {**old, "hidden_size": 32, "num_hidden_layers": 2, "pad_token_id": 1}
    heads = {"num_attention_heads": 4}
    bloom = {**old, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    opt = {**ours, **heads, "ffn_dim": 64, "word_embed_proj_dim": 32}
    makers = {
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**gpt2)),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**shape)),
        "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**shape, head_dim=8)),
        "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**window)),
        "gemma2": lambda: hf.Gemma2ForCausalLM(
            hf.Gemma2Config(**two_kinds, final_logit_softcapping=2.0)
        ),
        "gemma3": lambda: hf.Gemma3ForCausalLM(
            hf.Gemma3TextConfig(**two_kinds, layer_types=layers)
        ),
        "gpt_oss": lambda: hf.GptOssForCausalLM(
            hf.GptOssConfig(
                **two_kinds,
                layer_types=layers,
                num_local_experts=4,
                num_experts_per_tok=2,
                rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
            )
        ),
        "opt": lambda: hf.OPTForCausalLM(
            hf.OPTConfig(**opt, max_position_embeddings=64)
        ),
        "bloom": lambda: hf.BloomForCausalLM(hf.BloomConfig(**bloom)),
        "falcon": lambda: hf.FalconForCausalLM(
            hf.FalconConfig(**ours, **heads, alibi=True, new_decoder_architecture=False)
        ),
        "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**shape)),
        "gpt_neox": lambda: hf.GPTNeoXForCausalLM(
            hf.GPTNeoXConfig(
                **ours, **heads, intermediate_size=64, max_position_embeddings=64
            )
        ),
        "mixtral": lambda: hf.MixtralForCausalLM(
            hf.MixtralConfig(**shape, num_local_experts=4, num_experts_per_tok=2)
        ),
        "olmo2": lambda: hf.Olmo2ForCausalLM(hf.Olmo2Config(**shape)),
        "phi3": lambda: hf.Phi3ForCausalLM(
            hf.Phi3Config(
                **shape,
                original_max_position_embeddings=24,
                rope_parameters={
                    "rope_type": "longrope",
                    "rope_theta": 10_000.0,
                    "short_factor": [1.0, 1.1, 1.2, 1.3],
                    "long_factor": [2.0, 3.0, 4.0, 5.0],
                    "original_max_position_embeddings": 24,
                },
            )
        ),
        "dynamic": lambda: hf.LlamaForCausalLM(
            hf.LlamaConfig(
                **{**shape, "max_position_embeddings": 24},
                rope_parameters={
                    "rope_type": "dynamic",
                    "rope_theta": 10_000.0,
                    "factor": 4.0,
                },
            )
        ),
        "mamba": lambda: hf.MambaForCausalLM(hf.MambaConfig(**ours, state_size=4)),
        **large_makers(shape, ours),
    }
    with torch.random.fork_rng():
        # Biases and attention sinks keep the class's own values. With others, rounding
        # may choose another expert, which moves a log-probability by 0.7 in bfloat16.
        torch.manual_seed(10)
        model = makers[kind]()
    draw = np.random.default_rng(7)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                # uniform numbers are the same on all machines; torch's need not be
                numbers = draw.random(tuple(parameter.shape), dtype=np.float32) - 0.5
                scale = 1.5 if "emb" in name or "wte" in name else 1.0
                parameter.copy_(torch.from_numpy(numbers * scale))
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


@pytest.fixture(scope="session")
def opened(saved_model) -> Callable[..., object]:
    """A function from a kind of model and arguments to the loaded model, which other
    tests share unless it is loaded again."""
    known: dict[str, object] = {}

    def model(kind: str, *, anew: bool = False, **arguments: object) -> object:
        parts = [f"hf:{saved_model(kind)}", "device=cpu"]
        parts += [f"{name}={value}" for name, value in arguments.items()]
        text = ",".join(parts)
        if anew:
            return open_model(parse_spec(text))
        if text not in known:
            known[text] = open_model(parse_spec(text))
        return known[text]

    return model


class Oracle:
    """The definitions, one request at a time: no batch, no padding, no cache, every
    logit computed. Independent of the package."""

    def __init__(self, path: Path) -> None:
        import transformers

        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
        self.max_length = 64

    def loglikelihood(self, context: str, continuation: str) -> tuple[float, bool]:
        encode = self.tokenizer.encode
        if context == "":
            head = [self.tokenizer.bos_token_id]
            tail = encode(continuation, add_special_tokens=False)
        else:
            bare = context.rstrip()
            chosen = {"add_special_tokens": False} if bare.startswith("<s>") else {}
            head = encode(bare, **chosen)
            tail = encode(context + continuation, **chosen)[len(head) :]
        return self.tokens(head, tail)

    def tokens(self, head: list[int], tail: list[int]) -> tuple[float, bool]:
        import torch

        ids = (head + tail)[-(self.max_length + 1) :]
        with torch.no_grad():
            logits = self.model(torch.tensor([ids[:-1]])).logits[0]
        shares = logits.double().log_softmax(-1)[-len(tail) :]
        total = sum(float(row[token]) for row, token in zip(shares, tail, strict=True))
        return total, shares.argmax(-1).tolist() == tail

    def rolling(self, text: str) -> float:
        ids = self.tokenizer.encode(text)
        width, total = self.max_length, 0.0
        for start in range(0, len(ids), width):
            end = min(start + width, len(ids))
            if start == 0:
                head = [self.tokenizer.bos_token_id]
            else:
                head = ids[end - width - 1 : start]
            total += self.tokens(head, ids[start:end])[0]
        return total

    def generate(self, prompt: str, stop: tuple[str, ...], max_tokens: int) -> str:
        import torch

        chosen = {"add_special_tokens": False} if prompt.startswith("<s>") else {}
        ids = self.tokenizer.encode(prompt, **chosen)[-(self.max_length - max_tokens) :]
        new: list[int] = []
        while len(new) < max_tokens:
            with torch.no_grad():
                logits = self.model(torch.tensor([ids + new])).logits[0, -1]
            new.append(int(logits.argmax()))
            shown = self.tokenizer.decode(new)
            if new[-1] == self.tokenizer.eos_token_id or any(s in shown for s in stop):
                break
        text = self.tokenizer.decode(new, skip_special_tokens=True)
        for each in stop:
            text = text.split(each)[0]
        return text


@pytest.fixture(scope="session")
def oracle(saved_model, tiny_model_path) -> Callable[[str], Oracle]:
    """A function from a kind of model to its oracle; ``trained`` is the bundled one,
    and all others are random."""
    known: dict[str, Oracle] = {}

    def of(kind: str) -> Oracle:
        if kind not in known:
            path = tiny_model_path if kind == "trained" else saved_model(kind)
            known[kind] = Oracle(path)
        return known[kind]

    return of


@pytest.fixture
def ask() -> Callable[..., list[Response]]:
    """A function from a model and requests to the responses, in their order."""

    def responses(model: object, *requests: object) -> list[Response]:
        found = dict(model.answer(requests))
        assert sorted(found) == list(range(len(requests)))
        return [found[i] for i in range(len(requests))]

    return responses
