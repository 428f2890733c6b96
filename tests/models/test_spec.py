"""Model specs: their meaning, and the messages about invalid ones."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_evals.errors import MissingExtraError, OptionError
from pytest_evals.models.registry import check_spec, open_model, parse_spec


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory with one model in suites/tiny."""
    (tmp_path / "suites" / "tiny").mkdir(parents=True)
    (tmp_path / "suites" / "tiny" / "config.json").write_text("{}")
    (tmp_path / "suites" / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def error_of(text):
    with pytest.raises(OptionError) as caught:
        check_spec(parse_spec(text))
    return str(caught.value)


def test_a_spec_is_a_kind_a_target_and_arguments():
    spec = parse_spec("hf:org/name,dtype=bfloat16,device=cuda:1")
    assert (spec.kind, spec.target) == ("hf", "org/name")
    assert spec.arguments == {"dtype": "bfloat16", "device": "cuda:1"}
    assert str(spec) == "hf:org/name,dtype=bfloat16,device=cuda:1"


def test_a_value_keeps_its_equals_signs():
    assert parse_spec("hf:m,revision=a=b=c").arguments == {"revision": "a=b=c"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('hf:m,x="a,b"', "a,b"),
        ("hf:m,x='a,b'", "a,b"),
        ("hf:m,x=[1,2]", "[1,2]"),
        ('hf:m,x={"a": [1,2], "b": 3}', '{"a": [1,2], "b": 3}'),
        ("hf:m,x=it's", "it's"),
        ("hf:m,x=", ""),
    ],
)
def test_commas_in_quotes_and_brackets_belong_to_the_value(text, value):
    spec = parse_spec(text)
    assert spec.arguments == {"x": value}
    assert parse_spec(str(spec)) == spec


def test_a_target_may_be_quoted():
    assert parse_spec('hf:"./a,b",dtype=auto').target == "./a,b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "gpt2",
            "'gpt2' has no model kind; did you mean 'hf:gpt2'?",
        ),
        (
            "pretrained=gpt2,dtype=float16",
            "'pretrained=gpt2' has no model kind; did you mean 'hf:gpt2'?",
        ),
        ("", "no model is named; write 'hf:PATH_OR_NAME'"),
        ("hf", "'hf' is a kind of model without a model; write 'hf:PATH_OR_NAME'"),
        ("hf:", "'hf:' names no model; write 'hf:PATH_OR_NAME'"),
        (
            "hf:pretrained=gpt2",
            "'hf:pretrained=gpt2' names its model twice; write 'hf:gpt2'",
        ),
        (
            "scriptd:first",
            "unknown kind of model 'scriptd'; did you mean 'scripted'? "
            "(known: encoder, hf, openai, python, ray, scripted, serve, vllm)",
        ),
        ("hf:m,x=(1,2", "the model's spec lacks a closing )"),
        (
            "hf:m,bfloat16",
            "'bfloat16' is not name=value in the model's arguments; "
            "put quotes around a value with a comma",
        ),
        (
            "hf:m,dtype=auto,dtype=auto",
            "the model's argument 'dtype' is given twice",
        ),
        (
            "hf:m,dtyp=auto",
            "the hf model takes no argument 'dtyp'; did you mean 'dtype'?",
        ),
        (
            "hf:m,dtype=bfloat15",
            "the hf model's dtype is 'bfloat15'; did you mean 'bfloat16'?",
        ),
        (
            "hf:m,batch_tokens=0",
            "the hf model's batch_tokens is '0'; write a whole number from 1",
        ),
        (
            "hf:m,max_length=-3",
            "the hf model's max_length is '-3'; write a whole number from 1",
        ),
        (
            "hf:m,trust_remote_code=maybe",
            "the hf model's trust_remote_code is 'maybe'; write true or false",
        ),
        (
            "hf:m,device=gpu",
            "the hf model's device is 'gpu'; write cpu, cuda, cuda:1 or mps",
        ),
        (
            "hf:m,delta=x",
            "the hf model takes no argument 'delta': merge the weights first",
        ),
        (
            "hf:m,device_map=atuo",
            "the hf model's device_map is 'atuo'; did you mean 'auto'?",
        ),
        (
            "hf:m,device_map=auto,device=cuda",
            "the hf model takes one of device and device_map: the map chooses devices",
        ),
        (
            "hf:m,load_in_4bit=true,load_in_8bit=true",
            "the hf model takes one of load_in_8bit and load_in_4bit: "
            "each selects a quantization",
        ),
        (
            'hf:m,quantization={"bits":4}',
            "the hf model's quantization has no 'quant_method'; write it as in a "
            'config.json, such as {"quant_method":"bitsandbytes","load_in_4bit":true}',
        ),
        (
            "hf:m,enable_thinking=true",
            "the hf model's enable_thinking needs think_end_token, the text that ends "
            "the thinking, such as '</think>': the answer begins behind it",
        ),
        (
            "hf:m,chat_template_args=[1]",
            "the hf model's chat_template_args is not a JSON object: '[1]'",
        ),
    ],
)
def test_a_wrong_spec_is_one_clear_message(here, text, message):
    assert error_of(text) == message


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("openai:m base_url=http://h/v1", "write 'openai:m,base_url=http://h/v1'"),
        ("openai:m; api=chat", "arguments of a model follow a comma"),
        ("http://h/v1", "write 'openai:MODEL,base_url=http://h/v1'"),
        ("ollama:llama3", "write 'openai:llama3,base_url=http://localhost:11434/v1'"),
        ("Azure:gpt-4o", "write 'openai:gpt-4o,base_url=ADDRESS'"),
        ("app:respond", "write 'python:app:respond' for a function"),
        ("./app.py", "did you mean 'python:app:FUNCTION'?"),
    ],
)
def test_a_spec_in_the_form_of_others_names_the_right_one(text, fix):
    assert fix in error_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hf:suites/tinny", "no folder 'suites/tinny'; did you mean 'suites/tiny'?"),
        (
            "hf:./suites/tinny",
            "no folder './suites/tinny'; did you mean 'suites/tiny'?",
        ),
        ("hf:./sites/tiny", "no folder './sites/tiny'; did you mean 'suites/tiny'?"),
        (
            "hf:/no/such/thing",
            "no folder '/no/such/thing'; "
            "give a folder with a config.json, or a name on the Hub",
        ),
        (
            "hf:suites",
            "the folder 'suites' has no config.json; did you mean 'suites/tiny'?",
        ),
        (
            "hf:suites/data",
            "the folder 'suites/data' has no config.json; "
            "give the folder of a model, with its config.json",
        ),
        (
            "hf:suites/tiny/config.json",
            "'suites/tiny/config.json' is a file; "
            "give the folder of the model, with its config.json",
        ),
        (
            "hf:a/b/c",
            "no folder 'a/b/c'; give a folder with a config.json, or a name on the Hub",
        ),
    ],
)
def test_a_mistyped_path_is_found_before_anything_is_loaded(here, text, message):
    assert error_of(text) == message


@pytest.mark.parametrize("target", ["gpt2", "org/name", "suites/tiny"])
def test_names_on_the_hub_and_good_paths_are_let_through(here, target):
    spec = parse_spec(f"hf:{target}")
    check_spec(spec)
    assert spec.target == target


def test_an_adapter_is_distinguished_from_a_model(here):
    (here / "suites" / "data" / "adapter_config.json").write_text("{}")
    assert error_of("hf:suites/data") == (
        "'suites/data' is an adapter, not a model; "
        "give the model that it was made for, and peft=suites/data"
    )


def test_secrets_are_not_shown(here):
    spec = parse_spec("hf:m,api_key=s3cret,token=s3cret,batch_tokens=5")
    assert str(spec) == "hf:m,api_key=***,token=***,batch_tokens=5"
    assert "s3cret" not in repr(spec)
    assert "s3cret" not in error_of("hf:m,token=s3cret")


def test_a_missing_library_names_the_extra(here, monkeypatch):
    from pytest_evals.models.hf import kind

    monkeypatch.setattr(kind, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as caught:
        open_model(parse_spec("hf:suites/tiny"))
    assert str(caught.value) == (
        "the hf model needs torch: pip install 'pytest-model-evals[hf]'"
    )


def test_checking_a_spec_imports_only_the_standard_library():
    code = (
        "import sys, json\n"
        "from pytest_evals.models.registry import check_spec, parse_spec\n"
        "check_spec(parse_spec('hf:gpt2,dtype=auto'))\n"
        "check_spec(parse_spec('scripted:first'))\n"
        "heavy = {'torch', 'transformers', 'numpy', 'yaml', 'jinja2', 'datasets'}\n"
        "print(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == []


def test_the_end_of_a_password_with_a_comma_is_not_shown():
    with pytest.raises(OptionError) as info:
        parse_spec("openai:m,base_url=http://me:first,second@host/v1")
    assert "second" not in str(info.value)
    assert "'***@host/v1' is not name=value" in str(info.value)
