"""Write the bundled model as a GGUF file, which llama.cpp reads: the same weights as
float32, the same tokenizer. The layout is that of llama.cpp's
``convert_hf_to_gguf.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["write_gguf"]

PAIRED = ("q_proj.weight", "k_proj.weight")


def write_gguf(folder: Path, path: Path, *, bos: bool) -> None:
    """Write a model of the llama family with a byte-level tokenizer of single digits;
    with ``bos`` a token is put before each text."""
    import gguf

    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokenizer(writer, folder, config)
    writer.add_add_bos_token(bos)
    _add_weights(writer, folder, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, folder: Path, config: dict[str, Any]) -> None:
    from gguf import TokenType

    found = json.loads((folder / "tokenizer.json").read_text())
    special = {one["id"]: one["content"] for one in found["added_tokens"]}
    words = {i: word for word, i in found["model"]["vocab"].items()} | special
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")  # digits one by one, then as GPT-2
    writer.add_token_list([words[i] for i in range(config["vocab_size"])])
    writer.add_token_types(
        [TokenType.CONTROL if i in special else TokenType.NORMAL for i in sorted(words)]
    )
    merges = found["model"]["merges"]
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_chat_template((folder / "chat_template.jinja").read_text())


def _add_weights(writer: Any, folder: Path, config: dict[str, Any]) -> None:
    import gguf
    from safetensors.numpy import load_file

    n_layers, n_heads = config["num_hidden_layers"], config["num_attention_heads"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, n_layers)
    for name, weights in load_file(folder / "model.safetensors").items():
        if name.endswith(PAIRED):
            # GGUF interleaves rotated pairs; transformers has them half a head apart.
            halves = weights.reshape(n_heads, 2, -1, weights.shape[1])
            weights = halves.swapaxes(1, 2).reshape(weights.shape).copy()
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), weights)
