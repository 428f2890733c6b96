"""Tiny random image-text-to-text checkpoints, made in less than a second each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SIZE, PATCH = 28, 7
"""Side of an image and of its patches, in pixels."""
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.3,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": SIZE,
    "patch_size": PATCH,
}
CHAT = (
    "{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}"
    "{% else %}{% for p in m.content %}{% if p.type == 'image' %}IMAGE{% else %}"
    "{{ p.text }}{% endif %}{% endfor %}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def llava(folder: Path) -> None:
    """LLaVA: one token a patch."""
    import transformers as hf
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = _tokenizer(["<image>"], image_token="<image>")
    processor = hf.LlavaProcessor(
        CLIPImageProcessorPil(
            size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE}
        ),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_chat("<image>\n"),
    )
    config = hf.LlavaConfig(
        vision_config=hf.CLIPVisionConfig(**VISION),
        text_config=hf.LlamaConfig(**TEXT, **_ids(tokenizer)),
        image_token_id=tokenizer.image_token_id,
        vision_feature_layer=-1,
    )
    _save(folder, hf.LlavaForConditionalGeneration(config), processor)


def idefics3(folder: Path) -> None:
    """Idefics3: images are split into tiles, with tokens for rows and columns."""
    import transformers as hf
    from transformers.models.idefics3.image_processing_pil_idefics3 import (
        Idefics3ImageProcessorPil,
    )

    tiles = [f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)]
    names = ["<fake_token_around_image>", "<image>", "<end_of_utterance>"]
    tokenizer = _tokenizer([*names, "<global-img>", *tiles], image_token="<image>")
    processor = hf.Idefics3Processor(
        Idefics3ImageProcessorPil(
            size={"longest_edge": 2 * SIZE}, max_image_size={"longest_edge": SIZE}
        ),
        tokenizer,
        image_seq_len=4,
        chat_template=_chat("<image>"),
    )
    config = hf.Idefics3Config(
        vision_config=VISION,
        text_config=hf.LlamaConfig(**TEXT, **_ids(processor.tokenizer)),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    _save(folder, hf.Idefics3ForConditionalGeneration(config), processor)


def gemma3(folder: Path) -> None:
    """Gemma 3: images attend to themselves in both directions."""
    import torch
    import transformers as hf
    from transformers.models.gemma3.image_processing_pil_gemma3 import (
        Gemma3ImageProcessorPil,
    )

    named = {
        "image_token": "<image_soft_token>",
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
    }
    tokenizer = _tokenizer([*named.values()], **named)
    processor = hf.Gemma3Processor(
        Gemma3ImageProcessorPil(size={"height": SIZE, "width": SIZE}),
        tokenizer,
        image_seq_length=4,
        chat_template=_chat("<start_of_image>"),
    )
    text = hf.Gemma3TextConfig(
        **TEXT, **_ids(tokenizer), head_dim=16, sliding_window=64
    )
    config = hf.Gemma3Config(
        text_config=text,
        vision_config=VISION,
        mm_tokens_per_image=4,
        image_token_index=tokenizer.image_token_id,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
    )
    model = hf.Gemma3ForConditionalGeneration(config)
    # Zeros at first: images would have no effect.
    torch.nn.init.normal_(
        model.model.multi_modal_projector.mm_input_projection_weight, std=0.5
    )
    _save(folder, model, processor)


def qwen2_5_vl(folder: Path) -> None:
    """Qwen2.5-VL: tokens by the size of the image, positions in three dimensions."""
    import transformers as hf
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    named = {
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_start_token": "<|vision_start|>",
        "vision_end_token": "<|vision_end|>",
    }
    tokenizer = _tokenizer([*named.values()], **named)
    size = {"shortest_edge": 196, "longest_edge": 3136}
    patches = {"patch_size": PATCH, "merge_size": 2, "temporal_patch_size": 2}
    processor = hf.Qwen2_5_VLProcessor(
        Qwen2VLImageProcessorPil(size=size, **patches),
        tokenizer,
        hf.Qwen2VLVideoProcessor(size=size, **patches),
        chat_template=_chat("<|vision_start|><|image_pad|><|vision_end|>"),
    )
    text = {
        **TEXT,
        **_ids(tokenizer),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "mrope_section": [2, 3, 3],
        },
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "depth": 2,
        "num_heads": 2,
        "patch_size": PATCH,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 32,
        "window_size": SIZE,
        "fullatt_block_indexes": [1],
    }
    config = hf.Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        **{f"{name}_id": getattr(tokenizer, f"{name}_id") for name in named},
    )
    _save(folder, hf.Qwen2_5_VLForConditionalGeneration(config), processor)


FAMILIES: Mapping[str, Callable[[Path], None]] = {
    "llava": llava,
    "idefics3": idefics3,
    "gemma3": gemma3,
    "qwen2_5_vl": qwen2_5_vl,
}


def _tokenizer(special: list[str], **named: str) -> Any:
    """A tokenizer of bytes, with special strings."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<s>", "</s>", "<unk>", *special]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: i for i, word in enumerate([*words, *alphabet])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.add_special_tokens(words)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        padding_side="left",
        extra_special_tokens=named,
    )


def _ids(tokenizer: Any) -> dict[str, int]:
    return {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _chat(image: str) -> str:
    return CHAT.replace("IMAGE", image.replace("\n", "{{ '\\n' }}"))


def _save(folder: Path, model: Any, processor: Any) -> None:
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)


def fill(folder: Path) -> None:
    """Replace all weights of a checkpoint by a formula, so that they do not depend on
    the random generator of a version of torch."""
    import torch
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    for number, name in enumerate(sorted(weights)):
        one = weights[name]
        places = torch.arange(one.numel(), dtype=torch.float64) + 1
        waves = torch.sin(places * (1.3 + 0.37 * number)) * 0.3
        is_scale = "norm" in name and name.endswith("weight")
        values = (waves * 0.3 + 1.0) if is_scale else waves
        weights[name] = values.reshape(one.shape).to(one.dtype)
    save_file(weights, path, metadata={"format": "pt"})
