"""Llama and its relatives, opened without transformers' model classes: the numbers of
transformers, and transformers for everything else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.cache_utils import DynamicCache

from pytest_evals.core.request import Generate
from pytest_evals.errors import ModelError
from pytest_evals.models.hf.llama import Llama
from pytest_evals.models.hf.loader import load
from pytest_evals.models.hf.settings import HfSettings
from pytest_evals.models.registry import open_model, parse_spec

SHAPE = {
    "vocab_size": 330,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
MODELS = {
    "llama": ("Llama", {}),
    "all heads": ("Llama", {"num_key_value_heads": 4, "head_dim": 12}),
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "llama 3": ("Llama", {"rope_parameters": LLAMA_3}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "qwen 2": ("Qwen2", {"num_key_value_heads": 1}),
    "qwen 3": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, saved_model):
    """A function from a name in MODELS to a folder with such a model."""
    made = {}

    def save(name):
        if name not in made:
            family, settings = MODELS[name]
            config = getattr(transformers, f"{family}Config")(**{**SHAPE, **settings})
            with torch.random.fork_rng():
                torch.manual_seed(3)
                model = getattr(transformers, f"{family}ForCausalLM")(config)
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.3)
            made[name] = tmp_path_factory.mktemp("llama")
            model.save_pretrained(made[name])
            tokenizer = transformers.AutoTokenizer.from_pretrained(saved_model("llama"))
            tokenizer.save_pretrained(made[name])
        return made[name]

    return save


def pair(path, **settings):
    """A model as this package and as transformers opens it."""
    ours = load(HfSettings(target=str(path), **settings))
    theirs = load(HfSettings(target=str(path), attn_implementation="sdpa", **settings))
    assert isinstance(ours.model, Llama)
    assert isinstance(theirs.model, transformers.PreTrainedModel)
    return ours, theirs


def change(path, into, **settings):
    """A copy of a model's folder with other settings in its config.json."""
    for file in path.iterdir():
        (into / file.name).write_bytes(file.read_bytes())
    config = json.loads((path / "config.json").read_text())
    (into / "config.json").write_text(json.dumps({**config, **settings}))
    return into


@torch.inference_mode()
def outputs(model):
    """Logits of a batch; states of two further calls with a cache and a row that has
    padding on the left."""
    ids = torch.arange(3 * 41).reshape(3, 41) * 37 % SHAPE["vocab_size"]
    hidden = torch.ones(3, 41, dtype=torch.long)
    hidden[1, :5] = 0
    cache = DynamicCache()
    found = [model(input_ids=ids, use_cache=False).logits]
    for start, end in [(0, 20), (20, 40), (40, 41)]:
        found.append(
            model.base_model(
                input_ids=ids[:, start:end],
                attention_mask=hidden[:, :end] if start else None,
                position_ids=torch.arange(start, end).expand(3, -1),
                past_key_values=cache,
                use_cache=True,
            ).last_hidden_state
        )
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_equal_those_of_transformers(name, dtype, folder):
    ours, theirs = pair(folder(name), dtype=dtype)
    for mine, other in zip(outputs(ours.model), outputs(theirs.model), strict=True):
        assert mine.dtype == other.dtype
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)
    assert ours.max_length == theirs.max_length
    assert ours.model.num_parameters() == theirs.model.num_parameters()
    assert type(ours.tokenizer) is type(theirs.tokenizer)
    text = "The cat sat on the mat.  And?"
    assert ours.tokenizer(text) == theirs.tokenizer(text)


def test_weights_may_be_in_several_files(folder, tmp_path):
    theirs = load(HfSettings(target=str(folder("tied")), attn_implementation="sdpa"))
    theirs.model.save_pretrained(tmp_path, max_shard_size="20KB")
    theirs.tokenizer.save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    ours, _ = pair(tmp_path)
    assert torch.equal(outputs(ours.model)[0], outputs(theirs.model)[0])


UNUSUAL = {
    "a window": {"sliding_window": 8},
    "another activation": {"hidden_act": "gelu"},
    "scaled positions": {
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    },
    "overlapping bands of frequencies": {
        "rope_parameters": {**LLAMA_3, "low_freq_factor": 4.0, "high_freq_factor": 1.0}
    },
    "part of a head": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": 0.5,
        }
    },
    "an unknown setting": {"logit_scale": 2.0},
    "no type": {"dtype": None},
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_transformers_opens_models_with_other_settings(name, folder, tmp_path):
    path = change(folder("llama"), tmp_path, **UNUSUAL[name])
    found = load(HfSettings(target=str(path)))
    assert isinstance(found.model, transformers.LlamaForCausalLM)


INVALID = {
    "tied by a string": {"tie_word_embeddings": "false"},
    "too few layer types": {"layer_types": ["full_attention"]},
    "an integer as epsilon": {"rms_norm_eps": 0},
    "an unknown type of weights": {"dtype": "zeros"},
}


@pytest.mark.parametrize("name", INVALID)
def test_settings_that_transformers_rejects_are_errors(name, folder, tmp_path):
    path = change(folder("llama"), tmp_path, **INVALID[name])
    for dtype in ("auto", "float32"):
        with pytest.raises(ModelError):
            load(HfSettings(target=str(path), dtype=dtype))


def test_transformers_opens_a_mistral_with_layer_types(folder, tmp_path):
    """As a Ministral."""
    types = {"layer_types": ["full_attention"] * SHAPE["num_hidden_layers"]}
    path = change(folder("mistral"), tmp_path, **types)
    assert not isinstance(load(HfSettings(target=str(path))).model, Llama)


def test_a_qwen_3_without_a_size_of_heads_is_an_error(folder, tmp_path):
    path = change(folder("qwen 3"), tmp_path, head_dim=None)
    with pytest.raises(ModelError):
        load(HfSettings(target=str(path)))


def test_transformers_opens_a_mistral_with_a_window_that_qwen_would_not_use(
    folder, tmp_path
):
    windows = {"sliding_window": 8, "use_sliding_window": False}
    path = change(folder("mistral"), tmp_path, **windows)
    found = load(HfSettings(target=str(path)))
    assert isinstance(found.model, transformers.MistralForCausalLM)


@pytest.mark.parametrize(
    "changed",
    [
        lambda weights: {
            **weights,
            "model.layers.0.self_attn.q_proj.bias": torch.ones(32),
        },
        lambda weights: {**weights, "lm_head.weight": torch.ones(330, 32)},
    ],
)
def test_transformers_opens_models_with_further_weights(changed, folder, tmp_path):
    path = change(folder("tied"), tmp_path)
    weights = load_file(path / "model.safetensors")
    save_file(changed(weights), path / "model.safetensors", {"format": "pt"})
    found = load(HfSettings(target=str(path)))
    assert isinstance(found.model, transformers.LlamaForCausalLM)


def test_transformers_opens_models_without_settings_of_generation(folder, tmp_path):
    path = change(folder("llama"), tmp_path)
    settings = path / "generation_config.json"
    settings.write_text("{")
    found = load(HfSettings(target=str(path)))
    assert isinstance(found.model, transformers.LlamaForCausalLM)
    settings.unlink()
    found = load(HfSettings(target=str(path)))
    assert isinstance(found.model, transformers.LlamaForCausalLM)


def test_a_tokenizer_without_a_class_is_that_of_transformers(folder, tmp_path):
    path = change(folder("qwen 3"), tmp_path)
    settings = path / "tokenizer_config.json"
    for name in (None, ""):
        found = json.loads(settings.read_text()) | {"tokenizer_class": name}
        settings.write_text(json.dumps(found))
        ours, theirs = pair(path)
        assert type(ours.tokenizer) is type(theirs.tokenizer)


def test_settings_in_the_form_of_transformers_4_are_read(folder, tmp_path):
    scaling = {k: v for k, v in LLAMA_3.items() if k != "rope_theta"}
    path = change(folder("llama 3"), tmp_path)
    config = json.loads((path / "config.json").read_text())
    del config["rope_parameters"], config["dtype"]
    config |= {"rope_theta": 1e4, "rope_scaling": scaling, "torch_dtype": "float32"}
    (path / "config.json").write_text(json.dumps(config))
    ours = load(HfSettings(target=str(path)))
    _, theirs = pair(folder("llama 3"))
    assert isinstance(ours.model, Llama)
    assert torch.equal(outputs(ours.model)[0], outputs(theirs.model)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tied", "qwen 3"])
def test_beam_search_gives_the_texts_of_transformers(name, folder):
    requests = [
        Generate(prompt, max_tokens=12, options=(("num_beams", 3),))
        for prompt in ("the cat", "hello world on")
    ]
    texts = []
    for more in ("", ",attn_implementation=sdpa"):
        model = open_model(parse_spec(f"hf:{folder(name)}{more}"))
        texts.append(
            [
                response.text
                for _, response in sorted(model.answer(requests), key=lambda p: p[0])
            ]
        )
        model.close()
    assert texts[0] == texts[1]
    assert all(texts[0])


@pytest.mark.slow
def test_no_module_of_transformers_classes_is_imported(folder):
    code = (
        "import sys\n"
        "from pytest_evals.models.registry import open_model, parse_spec\n"
        "from pytest_evals.core.request import Generate\n"
        f"model = open_model(parse_spec('hf:{folder('llama')}'))\n"
        "print(list(model.answer([Generate('the cat', max_tokens=3)])))\n"
        "sys.exit('transformers.modeling_utils' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
