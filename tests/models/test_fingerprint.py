"""The fingerprint of a Hugging Face model: everything that can change its responses,
read from files, without torch."""

import json
import shutil
import subprocess
import sys

import pytest

from pytest_evals.models.checkpoint import hash_file
from pytest_evals.models.registry import fingerprint_of, parse_spec


def of(text, hashes=hash_file):
    return fingerprint_of(parse_spec(text), hashes)


@pytest.fixture
def model(tmp_path, tiny_model_path):
    return shutil.copytree(tiny_model_path, tmp_path / "model")


def test_copies_of_a_model_are_the_same_model(tmp_path, model):
    other = shutil.copytree(model, tmp_path / "other")
    assert of(f"hf:{model}") == of(f"hf:{other}")


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "adapter_model.safetensors",
        "adapter_config.json",
        "modeling_own.py",
        "parts/layers.py",
    ],
)
def test_a_changed_or_new_file_is_another_model(model, name):
    before = of(f"hf:{model}")
    path = model / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b" ")
    assert of(f"hf:{model}") != before


@pytest.mark.parametrize(
    "name", ["README.md", "optimizer.pt", ".git", "step-1/model.safetensors"]
)
def test_files_that_no_model_is_made_of_do_not_matter(model, name):
    before = of(f"hf:{model}")
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text("x")
    assert of(f"hf:{model}") == before


@pytest.mark.parametrize(
    "argument",
    [
        "dtype=bfloat16",
        "dtype=float16",
        "device=cpu",
        "device=cuda",
        "max_length=64",
        "add_bos_token=true",
        "add_bos_token=false",
        "prefix_token_id=0",
        "attn_implementation=eager",
        'chat_template_args={"enable_thinking":false}',
        "think_end_token=</think>",
        "trust_remote_code=true",
    ],
)
def test_an_argument_that_can_change_answers_is_another_model(model, argument):
    assert of(f"hf:{model},{argument}") != of(f"hf:{model}")


@pytest.mark.parametrize("argument", ["batch_tokens=64", "batch_size=2"])
def test_how_a_machine_cuts_batches_does_not_matter(model, argument):
    assert of(f"hf:{model},{argument}") == of(f"hf:{model}")


def test_two_devices_of_a_kind_are_alike(model):
    assert of(f"hf:{model},device=cuda:0") == of(f"hf:{model},device=cuda:1")


def test_another_tokenizer_is_another_model(tmp_path, model):
    other = shutil.copytree(model, tmp_path / "tokenizer")
    (other / "tokenizer.json").write_text("{}")
    same = of(f"hf:{model},tokenizer={model}")
    assert of(f"hf:{model},tokenizer={other}") != same != of(f"hf:{model}")


def test_another_adapter_is_another_model_and_its_place_does_not_matter(
    tmp_path, model
):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    copy = shutil.copytree(adapter, tmp_path / "copy")
    first = of(f"hf:{model},peft={adapter}")
    assert first == of(f"hf:{model},peft={copy}")
    assert first["libraries"].keys() - of(f"hf:{model}")["libraries"].keys() == {"peft"}
    (copy / "adapter_model.safetensors").write_text("x")
    assert of(f"hf:{model},peft={copy}") not in (first, of(f"hf:{model}"))


def test_it_is_json_and_holds_versions(model):
    found = of(f"hf:{model}")
    assert json.loads(json.dumps(found)) == found
    assert found["libraries"]["torch"]
    assert found["engine"]


def test_scripted_answers_are_not_worth_storing():
    assert of("scripted:first") is None


COMMITS = {"main": "a" * 40, "v1": "b" * 40}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of the Hub as huggingface_hub lays it out, without network."""
    from huggingface_hub import constants

    refs = tmp_path / "models--acme--llm" / "refs"
    refs.mkdir(parents=True)
    for name, commit in COMMITS.items():
        (refs / name).write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return refs


@pytest.mark.parametrize(
    ("revision", "commit"),
    [("", "a" * 40), (",revision=v1", "b" * 40), (f",revision={'c' * 40}", "c" * 40)],
)
def test_a_name_on_the_hub_is_resolved_to_a_commit(hub, revision, commit):
    found = of(f"hf:acme/llm{revision}")["model"]
    assert found == {"repository": "acme/llm", "commit": commit}


def test_a_branch_that_has_moved_is_another_model(hub):
    before = of("hf:acme/llm")
    (hub / "main").write_text("d" * 40)
    assert of("hf:acme/llm") != before


@pytest.mark.parametrize("name", ["acme/other", "acme/llm,revision=gone"])
def test_a_model_that_was_never_downloaded_has_no_fingerprint(hub, name):
    assert of(f"hf:{name}") is None


def test_neither_torch_nor_transformers_is_imported(model):
    code = (
        "import sys\n"
        "from pytest_evals.models.checkpoint import hash_file\n"
        "from pytest_evals.models.registry import fingerprint_of, parse_spec\n"
        "assert fingerprint_of(parse_spec(sys.argv[1]), hash_file)\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", code, f"hf:{model}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
