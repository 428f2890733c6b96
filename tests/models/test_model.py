"""Loading hf models: their descriptions, and the messages about invalid ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import warnings

import pytest

from pytest_evals.core.request import Generate, Loglikelihood, Rolling
from pytest_evals.errors import ModelError
from pytest_evals.models.registry import open_model, parse_spec
from pytest_evals.models.tokens.loader import first_line


def error_of(text):
    with pytest.raises(ModelError) as caught:
        open_model(parse_spec(text))
    return str(caught.value)


@pytest.fixture
def copied(saved_model, tmp_path):
    """A function from a kind of model to a copy of its folder."""

    def copy(kind):
        return shutil.copytree(saved_model(kind), tmp_path / kind)

    return copy


def test_a_model_describes_itself(saved_model, opened):
    info = opened("llama").info
    path = str(saved_model("llama"))
    assert json.loads(json.dumps(info)) == info
    assert info["pretrained"] == path
    assert info["model_class"] == "LlamaForCausalLM"
    assert (info["dtype"], info["device"]) == ("float32", "cpu")
    assert info["max_length"] == 64
    assert info["bos_token"] == ["<s>", 0]
    assert info["eos_token"] == ["</s>", 1]
    assert len(info["chat_template_sha"]) == 64
    assert opened("llama").name == f"hf:{path},device=cpu"


@pytest.mark.slow
def test_changed_weights_are_another_model(copied):
    from safetensors.torch import load_file, save_file

    path = copied("gpt2")
    before = open_model(parse_spec(f"hf:{path}")).info["weights"]
    again = open_model(parse_spec(f"hf:{path}")).info["weights"]
    weights = load_file(path / "model.safetensors")
    weights["transformer.wpe.weight"] += 1
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    assert before == again
    assert open_model(parse_spec(f"hf:{path}")).info["weights"] != before


def test_opening_and_asking_is_silent(copied, capfd, ask):
    path = copied("gpt2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = open_model(parse_spec(f"hf:{path}"))
        ask(
            model,
            Loglikelihood("a", "b" * 40),
            Rolling("a" * 90),
            Generate("a" * 90, max_tokens=3),
        )
    assert capfd.readouterr() == ("", "")


def test_max_length_can_be_given(opened, ask):
    model = opened("gpt2", max_length=8)
    (response,) = ask(model, Loglikelihood("a" * 20, "b"))
    assert model.info["max_length"] == 8
    assert response.n_truncated == 21 - 9


@pytest.mark.parametrize("kind", ["gpt2", "opt", "gpt_neo"])
def test_a_window_beyond_the_learned_positions_is_an_error(kind, opened, ask):
    with pytest.raises(ModelError, match=r"max_length is 65, .* 64 positions only"):
        opened(kind, max_length=65)
    (response,) = ask(opened(kind, max_length=64), Rolling("the cat " * 100))
    assert not response.error


def test_a_window_beyond_that_of_rotary_positions_is_allowed(opened, ask):
    (response,) = ask(opened("qwen3", max_length=90), Rolling("the cat " * 100))
    assert not response.error


def test_a_prefix_token_beyond_the_vocabulary_is_an_error(opened):
    with pytest.raises(ModelError, match=r"prefix_token_id is 330, .* 330 tokens only"):
        opened("qwen3", prefix_token_id=330)


def test_missing_weights_are_an_error_and_not_random(copied):
    """A checkpoint without head, as of an encoder or a classifier."""
    from safetensors.torch import load_file, save_file

    path = copied("llama")
    weights = load_file(path / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    assert error_of(f"hf:{path}") == (
        f"the checkpoint '{path}' lacks weights of a LlamaForCausalLM: lm_head.weight; "
        "they would be random, so this is not a model that can be scored"
    )


def test_weights_that_the_model_does_not_use_are_a_warning(copied, ask):
    """A config with a layer less. Old checkpoints contain what models compute."""
    import torch
    from safetensors.torch import load_file, save_file

    path = copied("llama")
    weights = load_file(path / "model.safetensors")
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    spec = parse_spec(f"hf:{path},attn_implementation=sdpa")
    assert open_model(spec).notes == ()
    config = json.loads((path / "config.json").read_text())
    config["num_hidden_layers"] = 1
    (path / "config.json").write_text(json.dumps(config))
    (note,) = open_model(spec).notes
    n_more = sum(name.startswith("model.layers.1.") for name in weights) - 3
    assert "model.layers.1.input_layernorm.weight" in note
    assert f"and {n_more} more" in note
    assert "model.layers.0" not in note


def test_weights_that_do_not_fit_the_config_are_named_with_both_sizes(copied):
    path = copied("llama")
    config = json.loads((path / "config.json").read_text())
    width, n_layers = config["intermediate_size"], config["num_hidden_layers"]
    config["intermediate_size"] = width + 8
    (path / "config.json").write_text(json.dumps(config))
    message = error_of(f"hf:{path}")
    found, needed = (f"({config['hidden_size']}, {n})" for n in (width, width + 8))
    assert f"{path}" in message
    assert (
        f"model.layers.0.mlp.down_proj.weight is {found} in the checkpoint and "
        f"{needed} in the model; "
    ) in message
    assert f", and {3 * n_layers - 3} more\n  fix: use a config.json and" in message


def test_an_error_that_begins_with_a_heading_is_shown_with_its_first_entry():
    error = RuntimeError(
        "Error(s) in loading state_dict for LlamaForCausalLM:\n"
        "\tsize mismatch for lm_head.weight: [9, 2] and [8, 2].\n\tsize mismatch for x"
    )
    assert first_line(error) == (
        "Error(s) in loading state_dict for LlamaForCausalLM: size mismatch for "
        "lm_head.weight: [9, 2] and [8, 2]."
    )


def test_an_encoder_decoder_model_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    assert error_of(f"hf:{tmp_path}") == (
        f"'{tmp_path}' is an encoder-decoder model (t5); "
        "the hf model takes decoder-only (causal) models"
    )


def test_a_model_that_sees_later_tokens_is_refused(tmp_path):
    from transformers import AutoTokenizer, BertConfig, BertLMHeadModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    config = BertConfig(
        vocab_size=330,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        is_decoder=False,
    )
    BertLMHeadModel(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer"}'
    )
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    assert AutoTokenizer.from_pretrained(tmp_path)
    assert "is not a causal language model" in error_of(f"hf:{tmp_path}")


def test_a_broken_folder_is_one_clear_message(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "no-such-type"}')
    message = error_of(f"hf:{tmp_path}")
    assert message.startswith(f"cannot load the model '{tmp_path}': ")
    assert "no-such-type" in message
    assert message.splitlines()[1:] == [
        "  fix: check config.json, the weights and the tokenizer in the folder"
    ]


@pytest.mark.nightly
def test_a_hub_that_cannot_be_reached_is_one_message_with_its_reason(tmp_path):
    """Runs in a separate process, since the Hub's address is read at import; port 9 of
    this machine is closed. The pauses between attempts are skipped."""
    code = (
        "import time\n"
        "time.sleep = lambda seconds: None\n"
        "from pytest_evals.models.registry import open_model, parse_spec\n"
        "from pytest_evals.errors import ModelError\n"
        "from huggingface_hub.utils import logging\n"
        "before = logging.get_verbosity()\n"
        "try:\n"
        "    open_model(parse_spec('hf:someone/some-model'))\n"
        "except ModelError as error:\n"
        "    print(error)\n"
        "assert logging.get_verbosity() == before\n"
    )
    chosen = {
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **chosen},
        capture_output=True,
        text=True,
        check=True,
    )
    first, fix = done.stdout.splitlines()
    assert done.stderr == ""
    assert first.startswith("cannot load the model 'someone/some-model': ")
    assert "http://127.0.0.1:9" in first
    assert "refused" in first
    assert fix == (
        "  fix: check the name on the Hub and the connection, or give a folder"
    )


def test_a_device_that_is_not_there_is_named(saved_model):
    message = error_of(f"hf:{saved_model('gpt2')},device=cuda:77")
    assert message.startswith("there is no device 'cuda:77' here (")
    assert message.endswith("); leave device out, or write device=cpu")


def test_tokens_of_the_hub_are_not_shown():
    error = OSError("401 for hf_abcdefGHIJKL123 at\nurl")
    assert first_line(error) == "401 for hf_*** at"


def test_a_closed_model_gives_its_memory_back(saved_model):
    model = open_model(parse_spec(f"hf:{saved_model('gpt2')}"))
    model.close()
    assert not hasattr(model, "_scorer")


def test_a_closed_model_still_has_its_notes(saved_model, ask):
    """The report is written after the fixture has closed the model."""
    model = open_model(parse_spec(f"hf:{saved_model('bloom')}"))
    ask(model, Loglikelihood("the", " cat"))
    model.close()
    (note,) = model.notes
    assert note.startswith("log-likelihoods share prefixes")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_gives_log_probabilities_in_float32(dtype, opened, oracle, ask):
    """lm-eval computes them in the model's dtype, which gives multiples of about
    1/16."""
    half = opened("llama", dtype=dtype)
    (response,) = ask(half, Loglikelihood("the cat", " sat on the mat"))
    expected, _ = oracle("llama").loglikelihood("the cat", " sat on the mat")
    assert half.info["dtype"] == dtype
    assert response.logprob == pytest.approx(expected, rel=0.05)
    assert response.logprob != round(response.logprob * 16) / 16


def test_prefetching_does_not_change_responses(opened):
    """As on a device; the CPU replaces one here."""
    model = opened("llama")
    requests = [
        *(Loglikelihood("the cat sat on", f" the {c}") for c in ("mat", "dog", "cat")),
        Rolling("the big dog and the king"),
        *(Generate(f"Question {i}", max_tokens=4) for i in range(3)),
    ]
    plain = sorted(model.answer(requests), key=lambda pair: pair[0])
    model.works_ahead = True
    try:
        model.expect(requests[1:])
        ahead = sorted(model.answer(requests), key=lambda pair: pair[0])
    finally:
        model.works_ahead = False
    assert [i for i, _ in ahead] == list(range(len(requests)))
    for (_, one), (_, other) in zip(plain, ahead, strict=True):
        assert (one.text, one.logprob, one.greedy) == (
            other.text,
            other.logprob,
            other.greedy,
        )


@pytest.mark.parametrize(
    "requests",
    [
        [Loglikelihood("the cat sat on", f" the {c}") for c in ("mat", "dog", "cat")],
        [Generate(f"Question {i}", stop=("zzz",), max_tokens=4) for i in range(3)],
    ],
    ids=["log-likelihoods", "texts"],
)
@pytest.mark.parametrize("works_ahead", [False, True])
def test_all_responses_of_a_batch_are_received_before_one_is_scored(
    opened, requests, works_ahead
):
    """So that they are stored if scoring is interrupted."""
    model, received = opened("llama"), []
    model.works_ahead = works_ahead
    model.on_response = lambda request, response: received.append(request)
    try:
        answers = model.answer(requests)
        next(answers)
        assert sorted(received, key=requests.index) == requests
    finally:
        model.works_ahead, model.on_response = False, None


def test_closing_a_model_stops_its_work(saved_model):
    model = open_model(parse_spec(f"hf:{saved_model('llama')},device=cpu,batch_size=1"))
    model.works_ahead = True
    requests = [Loglikelihood("the cat", " the dog" * n) for n in range(1, 20)]
    stream = iter(model.answer(requests))
    next(stream)
    model.expect([Rolling("the dog " * n) for n in range(100)])
    model.close()
    assert not [t for t in threading.enumerate() if t.name == "evals-model"]


@pytest.mark.parametrize(
    ("kind", "argument", "rule", "first"),
    [
        ("llama", "", "added", ["<s>", "the", " c", "at"]),
        ("llama", ",add_bos_token=false", "not added, by add_bos_token=False", 0),
        ("gpt2", "", "not added", ["the", " cat"]),
    ],
)
def test_a_model_reports_the_start_of_its_prompts(
    saved_model, kind, argument, rule, first
):
    model = open_model(parse_spec(f"hf:{saved_model(kind)},device=cpu{argument}"))
    assert model.info["bos_rule"] == rule
    assert "first_tokens" not in model.info
    list(model.answer([Loglikelihood("the cat", " sat")]))
    assert model.info["first_tokens"][0] == (first[0] if first else "the")
