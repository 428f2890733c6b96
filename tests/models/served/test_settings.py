"""Settings of an ``openai:`` spec, and masking of its secrets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_evals.core.request import Generate
from pytest_evals.errors import OptionError
from pytest_evals.masking.values import masked_text
from pytest_evals.models.openai.settings import read_settings
from pytest_evals.models.registry import (
    check_spec,
    fingerprint_of,
    open_model,
    parse_spec,
)


def error_of(text):
    with pytest.raises(OptionError) as caught:
        check_spec(parse_spec(text))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "openai:m,concurency=3",
            "the openai model takes no argument 'concurency'; did you mean "
            "'concurrency'?",
        ),
        (
            "openai:m,num_concurrent=3",
            "the openai model takes no argument 'num_concurrent': use concurrency",
        ),
        (
            "openai:m,api_key=sk-1",
            "the openai model takes no argument 'api_key': set the environment "
            "variable OPENAI_API_KEY, or name another by api_key_env=",
        ),
        (
            "openai:m,api_key_env=sk-proj-123",
            "the openai model's api_key_env is not the name of an environment "
            "variable; write its name, never the key itself",
        ),
        (
            "openai:m,base_url=localhost:8000",
            "the openai model's base_url is 'localhost:8000'; write an address such as "
            "http://localhost:8000/v1",
        ),
        (
            "openai:m,base_url=ftp://me:secret@host",
            "the openai model's base_url is 'ftp://***@host'; write an address such as "
            "http://localhost:8000/v1",
        ),
        (
            "openai:m,api=chats",
            "the openai model's api is 'chats'; did you mean 'chat'?",
        ),
        (
            "openai:m,concurrency=0",
            "the openai model's concurrency is '0'; write a whole number from 1",
        ),
        (
            "openai:m,timeout=0",
            "the openai model's timeout is '0'; write seconds, more than 0",
        ),
        (
            "openai:m,price_in=nan",
            "the openai model's price_in is 'nan'; write a number, 0 or more",
        ),
        (
            "openai:m,extra_body=[1]",
            "the openai model's extra_body is not a JSON object: '[1]'",
        ),
        ("openai:", "'openai:' names no model; write 'openai:MODEL,base_url=…'"),
    ],
)
def test_an_invalid_argument_is_reported_before_any_request(text, message):
    assert error_of(text) == message


@pytest.mark.parametrize(
    ("given", "url", "api"),
    [
        ("http://h/v1/", "http://h/v1", ""),
        ("http://h/v1/completions", "http://h/v1", "completions"),
        ("http://h/v1/chat/completions", "http://h/v1", "chat"),
    ],
)
def test_an_address_of_lm_eval_selects_the_api(given, url, api):
    settings = read_settings(parse_spec(f"openai:m,base_url={given}"))
    assert (settings.base_url, settings.api) == (url, api)


def test_the_address_is_the_argument_then_the_official_variable_then_openais(
    monkeypatch,
):
    def url(spec):
        return read_settings(parse_spec(spec)).base_url

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert url("openai:m") == "https://api.openai.com/v1"
    public = fingerprint_of(parse_spec("openai:m"), str)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway.test/v1/")
    assert url("openai:m") == "http://gateway.test/v1"
    assert url("openai:m,base_url=http://mine.test/v1") == "http://mine.test/v1"
    assert fingerprint_of(parse_spec("openai:m"), str) != public
    monkeypatch.setenv("OPENAI_BASE_URL", " ")
    assert url("openai:m") == "https://api.openai.com/v1"


def test_an_invalid_address_in_the_environment_names_the_variable(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "ftp://me:secret@gateway.test")
    assert error_of("openai:m") == (
        "the environment variable OPENAI_BASE_URL is 'ftp://***@gateway.test'; write "
        "an address such as http://localhost:8000/v1"
    )


@pytest.mark.parametrize(
    ("name", "thinks"),
    [
        ("o1", True),
        ("o3-mini-2025-01-31", True),
        ("gpt-5", True),
        ("gpt-5-mini", True),
        ("gpt-5.1", True),
        ("gpt-5-chat-latest", False),
        ("gpt-3.5-turbo-instruct", False),
        ("gpt-4o", False),
        ("gpt-4.1-2025-04-14", False),
    ],
)
def test_models_that_think_first_are_known_by_their_whole_name(name, thinks):
    assert read_settings(parse_spec(f"openai:{name}")).thinks is thinks
    local = f"openai:{name},base_url=http://localhost/v1"
    assert read_settings(parse_spec(local)).thinks is False


def test_a_tokenizer_is_looked_for_before_anything_is_sent(saved_model):
    folder = saved_model("gpt2")
    assert error_of(f"openai:m,tokenizer={folder}/no") == (
        f"no folder '{folder}/no'; "
        "give a folder with a tokenizer_config.json, or a name on the Hub"
    )
    assert error_of(f"openai:m,tokenizer={folder},prefix=<s>") == (
        "the openai model takes one of prefix and tokenizer: the tokenizer knows the "
        "token in front of a text"
    )


def test_responses_by_another_tokenizer_are_stored_apart(saved_model):
    def found(arguments):
        spec = parse_spec(f"openai:m,base_url=http://h/v1{arguments}")
        return fingerprint_of(spec, lambda path: path.name)

    plain, folder = found(""), saved_model("gpt2")
    assert "tokenizer" not in plain
    with_one = found(f",tokenizer={folder}")
    assert {**with_one, "tokenizer": None} == {**plain, "tokenizer": None}
    assert "tokenizer.json" in with_one["tokenizer"]["files"]


def test_nothing_secret_of_an_address_is_shown():
    url = "https://me:hush@host/v1?api-key=hush&api-version=3&Signature=hush"
    spec = parse_spec(f"openai:m,base_url={url}")
    shown = "https://***@host/v1?api-key=***&api-version=3&Signature=***"
    assert masked_text(url) == shown
    assert str(spec) == f"openai:m,base_url={shown}"
    assert "hush" not in repr(spec) + repr(read_settings(spec))
    assert "hush" not in str(fingerprint_of(spec, str))


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("mine:m,api_key=hush,n=3", "mine:m,api_key=***,n=3"),
        ("mine:m,token='hu,sh',n=3", "mine:m,token=***,n=3"),
        ("mine:m, Password=hush&hush", "mine:m, Password=***"),
        ("mine:token=hush", "mine:token=***"),
        ("openai:m,base_url=http://u:hush@h/v1", "openai:m,base_url=http://***@h/v1"),
        ("openai:m,max_tokens=9,prefix=key", "openai:m,max_tokens=9,prefix=key"),
    ],
)
def test_secrets_of_specs_of_all_kinds_are_masked(spec, shown):
    assert masked_text(spec) == shown
    assert masked_text(shown) == shown


def test_an_address_with_name_and_password_is_used_whole(served, model_of, ask):
    url = served.url.replace("://", "://me:hush@") + "?api-version=3"
    model = model_of(base_url=url)
    ask(model, Generate("Q:"))
    path, _ = served.bodies[0]
    assert path == "/v1/completions?api-version=3"
    assert served.headers[0]["authorization"] == "Basic bWU6aHVzaA=="
    assert "hush" not in str(model.info) + model.name


def test_the_key_is_sent_and_shown_nowhere(served, model_of, ask):
    model = model_of()
    ask(model, Generate("Q:"))
    assert served.headers[0]["authorization"] == "Bearer sk-of-a-test-never-shown"
    assert "sk-of" not in str(model.info) + model.name + str(model.notes)


def test_openai_needs_a_key_and_a_server_of_ones_own_does_not(monkeypatch, served):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(OptionError) as caught:
        open_model(parse_spec("openai:gpt-4o"))
    assert str(caught.value) == (
        "the environment variable OPENAI_API_KEY holds no key for "
        "https://api.openai.com/v1\n  fix: export OPENAI_API_KEY=…"
    )
    model = open_model(parse_spec(f"openai:m,base_url={served.url}"))
    assert dict(model.answer([Generate("Q:")]))[0].text == "said Q:"
    model.close()


def test_a_named_variable_must_hold_a_key(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(
        OptionError, match="variable MY_KEY holds no key for http://h/v1"
    ):
        open_model(parse_spec("openai:m,base_url=http://h/v1,api_key_env=MY_KEY"))


@pytest.mark.parametrize(
    "key", ["sk-\u043a\u043b\u044e\u0447", "\u200bsk-1", "sk-1\nsk-2"]
)
def test_a_key_that_no_header_can_have_is_an_option_error(monkeypatch, served, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(OptionError, match="OPENAI_API_KEY has characters") as caught:
        open_model(parse_spec(f"openai:tiny,base_url={served.url}"))
    assert key not in str(caught.value)


def test_the_key_comes_from_the_named_variable(monkeypatch, served):
    monkeypatch.setenv("MY_KEY", "sk-mine")
    spec = parse_spec(f"openai:m,base_url={served.url},api_key_env=MY_KEY")
    model = open_model(spec)
    list(model.answer([Generate("Q:")]))
    model.close()
    assert served.headers[0]["authorization"] == "Bearer sk-mine"


def test_the_library_is_not_imported_before_the_model_is_opened():
    script = (
        "import sys; from pytest_evals.models.registry import *;"
        "spec = parse_spec('openai:m,base_url=http://h/v1'); check_spec(spec);"
        "fingerprint_of(spec, str);"
        "import pytest_evals.models.openai.kind;"
        "print(sorted({'openai', 'httpx'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_fingerprint_contains_only_settings_that_change_responses():
    def of(text):
        return fingerprint_of(parse_spec(text), str)

    base = "openai:m,base_url=http://h/v1"
    assert of(base) == of(f"{base},concurrency=2,timeout=9,price_in=1,max_retries=1")
    for change in (
        "api=chat",
        "revision=2",
        "prefix=x",
        "think_end_token=x",
        "send_seed=false",
        "reasoning=true",
        'extra_body={"a":1}',
    ):
        assert of(base) != of(f"{base},{change}"), change
    assert of(base) != of("openai:n,base_url=http://h/v1")
    assert of(base) != of("openai:m,base_url=http://g/v1")
