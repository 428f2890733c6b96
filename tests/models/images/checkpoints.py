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
    _tiled(folder, "Idefics3")


def _tiled(folder: Path, name: str) -> None:
    from importlib import import_module

    import transformers as hf

    low = name.lower()
    module = f"transformers.models.{low}.image_processing_pil_{low}"
    images = getattr(import_module(module), f"{name}ImageProcessorPil")
    tiles = [f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)]
    names = ["<fake_token_around_image>", "<image>", "<end_of_utterance>"]
    tokenizer = _tokenizer([*names, "<global-img>", *tiles], image_token="<image>")
    shown = images(
        size={"longest_edge": 2 * SIZE}, max_image_size={"longest_edge": SIZE}
    )
    videos = [hf.SmolVLMVideoProcessor()] if name == "SmolVLM" else []
    processor = getattr(hf, f"{name}Processor")(
        shown, tokenizer, *videos, image_seq_len=4, chat_template=_chat("<image>")
    )
    config = getattr(hf, f"{name}Config")(
        vision_config=VISION,
        text_config=hf.LlamaConfig(**TEXT, **_ids(processor.tokenizer)),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    model = getattr(hf, f"{name}ForConditionalGeneration")(config)
    _save(folder, model, processor)


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


def paligemma(folder: Path) -> None:
    """PaliGemma: prompts see each other in both directions; it has no chat template of
    its own."""
    import transformers as hf
    from transformers.models.siglip.image_processing_pil_siglip import (
        SiglipImageProcessorPil,
    )

    tokenizer = _tokenizer(["<image>"], image_token="<image>")
    images = SiglipImageProcessorPil(size={"height": SIZE, "width": SIZE})
    images.image_seq_length = (SIZE // PATCH) ** 2
    processor = hf.PaliGemmaProcessor(images, tokenizer, chat_template=_chat("<image>"))
    text = {**TEXT, **_ids(processor.tokenizer), "head_dim": 16}
    config = hf.PaliGemmaConfig(
        vision_config=hf.SiglipVisionConfig(**VISION, projection_dim=32),
        text_config=hf.GemmaConfig(**text),
        image_token_id=processor.tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=32,
        hidden_size=32,
    )
    _save(folder, hf.PaliGemmaForConditionalGeneration(config), processor)


def llava_onevision(folder: Path) -> None:
    """LLaVA-OneVision: tiles by the size of the image."""
    import transformers as hf
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import (  # noqa: E501
        LlavaOnevisionImageProcessorPil,
    )

    named = {"image_token": "<image>", "video_token": "<video>"}
    tokenizer = _tokenizer([*named.values()], **named)
    grid = [[SIZE * i, SIZE * j] for i in (1, 2) for j in (1, 2)]
    size = {"height": SIZE, "width": SIZE}
    processor = hf.LlavaOnevisionProcessor(
        LlavaOnevisionImageProcessorPil(size=size, image_grid_pinpoints=grid),
        tokenizer,
        hf.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=(SIZE // PATCH) ** 2,
        vision_feature_select_strategy="full",
        chat_template=_chat("<image>\n"),
    )
    config = hf.LlavaOnevisionConfig(
        vision_config=hf.SiglipVisionConfig(**VISION, vision_use_head=False),
        text_config=hf.Qwen2Config(**TEXT, **_ids(tokenizer)),
        image_token_id=tokenizer.image_token_id,
        video_token_id=tokenizer.video_token_id,
        image_grid_pinpoints=grid,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    )
    _save(folder, hf.LlavaOnevisionForConditionalGeneration(config), processor)


def qwen2_vl(folder: Path) -> None:
    """Qwen2-VL: as Qwen2.5-VL, with attention over the whole image."""
    import transformers as hf

    processor, text, ids = _qwen(hf.Qwen2VLProcessor)
    vision = {**QWEN_VISION, "embed_dim": 32}
    config = hf.Qwen2VLConfig(text_config=text, vision_config=vision, **ids)
    _save(folder, hf.Qwen2VLForConditionalGeneration(config), processor)


def qwen2_5_vl(folder: Path) -> None:
    """Qwen2.5-VL: tokens by the size of the image, positions in three dimensions."""
    import transformers as hf

    processor, text, ids = _qwen(hf.Qwen2_5_VLProcessor)
    vision = {**QWEN_VISION, "out_hidden_size": 32, "intermediate_size": 64}
    vision |= {"window_size": SIZE, "fullatt_block_indexes": [1]}
    config = hf.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)
    _save(folder, hf.Qwen2_5_VLForConditionalGeneration(config), processor)


def qwen3_vl(folder: Path) -> None:
    """Qwen3-VL: features of several layers of the image model."""
    import transformers as hf

    processor, text, ids = _qwen(hf.Qwen3VLProcessor)
    vision = {**QWEN_VISION, "out_hidden_size": 32, "intermediate_size": 64}
    vision |= {"num_position_embeddings": 64, "deepstack_visual_indexes": [0]}
    text["head_dim"] = 16
    config = hf.Qwen3VLConfig(text_config=text, vision_config=vision, **ids)
    _save(folder, hf.Qwen3VLForConditionalGeneration(config), processor)


QWEN_VISION = {
    "hidden_size": 32,
    "depth": 2,
    "num_heads": 2,
    "patch_size": PATCH,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}


def _qwen(kind: Any) -> tuple[Any, dict[str, Any], dict[str, int]]:
    """The processor of a Qwen-VL, the text's settings, and ids of named tokens."""
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
    is_third = kind is hf.Qwen3VLProcessor
    video = hf.Qwen3VLVideoProcessor if is_third else hf.Qwen2VLVideoProcessor
    processor = kind(
        Qwen2VLImageProcessorPil(size=size, **patches),
        tokenizer,
        video(size=size, **patches),
        chat_template=_chat("<|vision_start|><|image_pad|><|vision_end|>"),
    )
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    text = {**TEXT, **_ids(tokenizer), "rope_parameters": rope}
    return (
        processor,
        text,
        {f"{name}_id": getattr(tokenizer, f"{name}_id") for name in named},
    )


def internvl(folder: Path) -> None:
    """InternVL: tiles are stacked in the first dimension."""
    import transformers as hf
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import (
        GotOcr2ImageProcessorPil,
    )

    named = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tokenizer = _tokenizer([*named.values()], **named)
    size = {"height": SIZE, "width": SIZE}
    processor = hf.InternVLProcessor(
        GotOcr2ImageProcessorPil(size=size, crop_to_patches=True, max_patches=4),
        tokenizer,
        hf.InternVLVideoProcessor(size=size),
        image_seq_length=4,
        chat_template=_chat("<IMG_CONTEXT>\n"),
    )
    config = hf.InternVLConfig(
        vision_config=VISION
        | {"image_size": [SIZE, SIZE], "patch_size": [PATCH, PATCH]},
        text_config=hf.Qwen2Config(**TEXT, **_ids(tokenizer)),
        image_token_id=tokenizer.context_image_token_id,
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    _save(folder, hf.InternVLForConditionalGeneration(config), processor)


def smolvlm(folder: Path) -> None:
    """SmolVLM: as Idefics3."""
    _tiled(folder, "SmolVLM")


FAMILIES: Mapping[str, Callable[[Path], None]] = {
    "llava": llava,
    "idefics3": idefics3,
    "gemma3": gemma3,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_vl": qwen2_vl,
    "qwen3_vl": qwen3_vl,
    "llava_onevision": llava_onevision,
    "internvl": internvl,
    "smolvlm": smolvlm,
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
