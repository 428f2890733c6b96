"""Other forms of weights: with an adapter, quantised, over several devices."""

from __future__ import annotations

import json
import shutil
import warnings

import pytest
import torch

from pytest_evals.core.request import Generate, Loglikelihood
from pytest_evals.errors import MissingExtraError, ModelError
from pytest_evals.models.registry import open_model, parse_spec

REQUESTS = [
    Loglikelihood("the cat", " sat"),
    Loglikelihood("the cat", " sat on the mat"),
    *(Generate(p, max_tokens=8) for p in ("the cat", "hello world and the dog", "a")),
]


@pytest.fixture(scope="module")
def adapter(saved_model, tmp_path_factory):
    """A LoRA adapter of the llama whose layers are not zero, and the adapted model as
    peft itself runs it."""
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(3)
    base = AutoModelForCausalLM.from_pretrained(saved_model("llama"))
    config = peft.LoraConfig(
        r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False
    )
    path = tmp_path_factory.mktemp("adapter")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(base, config).eval()
        model.save_pretrained(path)
    return path, model


@pytest.mark.slow
def test_an_adapter_changes_the_numbers_as_in_peft(saved_model, adapter, opened, ask):
    pytest.importorskip("peft")
    path, theirs = adapter
    model = open_model(parse_spec(f"hf:{saved_model('llama')},peft={path},device=cpu"))
    with_adapter, without = ask(model, *REQUESTS), ask(opened("llama"), *REQUESTS)
    tokenizer = model._encoder.tokenizer
    head, whole = (tokenizer.encode(t) for t in ("the cat", "the cat sat on the mat"))
    with torch.no_grad():
        logits = theirs(torch.tensor([whole])).logits[0].log_softmax(-1)
    expected = sum(float(logits[i - 1, whole[i]]) for i in range(len(head), len(whole)))
    assert with_adapter[1].logprob == pytest.approx(expected, abs=1e-4)
    assert without[1].logprob != pytest.approx(expected, abs=1e-2)
    ids = torch.tensor([head])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = theirs.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=8,
            do_sample=False,
            pad_token_id=1,
        )
    text = tokenizer.decode(out[0, len(head) :], skip_special_tokens=True)
    assert with_adapter[2].text == text
    assert model.info["peft"] == str(path)
    assert len(model.info["peft_weights"]) == 64
    assert opened("llama").info["peft_weights"] == ""


@pytest.mark.parametrize(
    ("setting", "change", "words"),
    [
        (
            "intermediate_size",
            8,
            " is (4, 64) in the checkpoint and (4, 72) in the model",
        ),
        ("num_hidden_layers", -1, "has weights for which "),
        ("num_hidden_layers", 1, "lacks weights: "),
    ],
)
def test_an_adapter_of_a_model_of_another_size_is_an_error_that_names_weights(
    saved_model, adapter, tmp_path, setting, change, words
):
    from transformers import AutoConfig, AutoModelForCausalLM

    other = tmp_path / "other"
    shutil.copytree(saved_model("llama"), other)
    config = AutoConfig.from_pretrained(other)
    setattr(config, setting, getattr(config, setting) + change)
    AutoModelForCausalLM.from_config(config).save_pretrained(other)
    path, _ = adapter
    with pytest.raises(ModelError) as caught:
        open_model(parse_spec(f"hf:{other},peft={path},device=cpu"))
    message = str(caught.value)
    assert f"the adapter '{path}' " in message
    assert words in message
    assert message.endswith("\n  fix: set peft= to an adapter of this model")


def test_an_adapter_of_another_model_is_one_clear_error(saved_model, adapter):
    path, _ = adapter
    with pytest.raises(ModelError) as caught:
        open_model(parse_spec(f"hf:{saved_model('gpt2')},peft={path},device=cpu"))
    message = str(caught.value)
    assert message.startswith(
        f"cannot load the adapter '{path}' into '{saved_model('gpt2')}': "
    )
    assert message.endswith("\n  fix: set peft= to an adapter of this model")


def test_a_map_of_devices_gives_the_same_numbers(saved_model, opened, ask):
    pytest.importorskip("accelerate")
    model = open_model(parse_spec(f"hf:{saved_model('llama')},device_map=sequential"))
    expected = ask(opened("llama"), *REQUESTS)
    for one, other in zip(ask(model, *REQUESTS), expected, strict=True):
        assert (one.error, one.text) == (other.error, other.text)
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
    assert model.info["device_map"] == "sequential"


@pytest.mark.parametrize(
    ("argument", "library", "message"),
    [
        ("peft=someone/adapter", "peft", "peft needs peft: pip install '{}[peft]'"),
        (
            "load_in_8bit=true",
            "bitsandbytes",
            "load_in_8bit needs bitsandbytes: pip install '{}[quantized]'",
        ),
        (
            "load_in_4bit=true",
            "accelerate",
            "quantised loading needs accelerate: pip install '{}[quantized]'",
        ),
        (
            "device_map=auto",
            "accelerate",
            "device_map needs accelerate: pip install '{}[accelerate]'",
        ),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    argument, library, message, saved_model, monkeypatch
):
    from pytest_evals.models.hf import loader as weights

    real = weights.find_spec
    monkeypatch.setattr(
        weights, "find_spec", lambda name: None if name == library else real(name)
    )
    with pytest.raises(MissingExtraError) as caught:
        open_model(parse_spec(f"hf:{saved_model('gpt2')},{argument}"))
    expected = message.format("pytest-model-evals")
    assert str(caught.value) == f"the hf model's {expected}"


@pytest.mark.parametrize("argument", ["load_in_8bit=true", "load_in_4bit=true"])
def test_a_quantised_model_answers_and_reports_its_quantisation(
    argument, saved_model, ask
):
    """This holds on the CPU too, if bitsandbytes is installed."""
    pytest.importorskip("bitsandbytes")
    model = open_model(parse_spec(f"hf:{saved_model('llama')},{argument},device=cpu"))
    found = ask(model, *REQUESTS)
    assert all(response.error == "" for response in found)
    assert model.info["quantization"]["quant_method"] == "bitsandbytes"
    assert json.loads(json.dumps(model.info)) == model.info
