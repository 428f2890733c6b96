"""Secrets by name, where they are found, and where they are masked."""

from __future__ import annotations

import json
import logging
from base64 import b64encode, urlsafe_b64encode

import pytest

from pytest_evals.core.request import Response
from pytest_evals.errors import OptionError
from pytest_evals.masking.names import is_secret_name
from pytest_evals.masking.registry import (
    hidden,
    learn_secret,
    masking_logs,
    remembering,
)
from pytest_evals.masking.values import (
    identity,
    masked,
    masked_text,
    watch_environment,
    without_secrets,
)

SECRET = """
    api_key apiKey API_KEY X-Api-Key api-key apikey openai_api_key OPENAI_API_KEY
    access_key aws_secret_access_key private_key secret_key subscription-key
    token auth_token access_token refreshToken hf_token HF_TOKEN github_token
    access_tokens password db_password PASSWORD2 passwd pwd passphrase secret
    client_secret clientSecret secrets credentials Authorization Proxy-Authorization
    Cookie secret_value
"""
INNOCENT = """
    max_tokens max_new_tokens max_gen_toks max_completion_tokens token_count tokenizer
    tokenizer_backend pad_token pad_token_id bos_token eos_token eos_token_id
    add_bos_token think_end_token think_start_token tokens n_tokens num_tokens
    special_tokens stop_token_ids tokens_per_second key model_key dataset_key sort_key
    answer_key primary_key keys keyword public_key api_key_env passed author secretary
    monkey skip_special_tokens prompt_tokens first_token image_token
"""


@pytest.fixture(autouse=True)
def forgetting():
    with remembering():
        yield


@pytest.mark.parametrize("name", SECRET.split())
def test_names_of_secrets(name):
    assert is_secret_name(name)
    assert is_secret_name(name, loose=True)


@pytest.mark.parametrize("name", INNOCENT.split())
def test_names_of_other_things(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"api_key": "hush"}, {"api_key": "***"}),
        ({"a": [{"b": {"token": "hush"}}]}, {"a": [{"b": {"token": "***"}}]}),
        (
            {"secrets": {"A": "hush", "b": ["hush"]}},
            {"secrets": {"A": "***", "b": ["***"]}},
        ),
        ({"password": 12345678}, {"password": "***"}),
        ({"token": 50256, "tokens": [1, 2]}, {"token": 50256, "tokens": [1, 2]}),
        ({"password": None, "secret": True}, {"password": None, "secret": True}),
        ({"key": "<< secrets.KEY >>"}, {"key": "<< secrets.KEY >>"}),
        ({"api_key": "<< secrets.KEY >>"}, {"api_key": "<< secrets.KEY >>"}),
        ({"api_key": "${KEY}"}, {"api_key": "${KEY}"}),
        (["Authorization", "Bearer hush"], ["Authorization", "***"]),
        (["Password", "Username"], ["Password", "Username"]),
        ("https://me:hush@host/v1?token=hush&n=1", "https://***@host/v1?token=***&n=1"),
        ('{"api_key": "hush", "n": 1}', '{"api_key": "***", "n": 1}'),
        ('{"n": 1, "m": [2]}', '{"n": 1, "m": [2]}'),
        ("api_key=hush", "api_key=***"),
        ("password: hush", "password: ***"),
        ("Authorization: Bearer hush-hush1", "Authorization: Bearer ***"),
        ("The secret: find it yourself.", "The secret: find it yourself."),
        ("Password: {{password}}\nToken:", "Password: {{password}}\nToken:"),
        ("{{token}}: {{key}} = 'x'", "{{token}}: {{key}} = 'x'"),
        ("Basic mathematics", "Basic mathematics"),
        ("Basic JavaScript", "Basic JavaScript"),
        ("Basic MATHEMATICALLOGIC", "Basic MATHEMATICALLOGIC"),
        # Letters of base64 only, by chance.
        ("Authorization: Bearer cDBUZzNrUCMvWXhsSTVS", "Authorization: Bearer ***"),
        (
            {"max_tokens": 5, "tokenizer": "gpt2"},
            {"max_tokens": 5, "tokenizer": "gpt2"},
        ),
        ((1, 2.5, None), (1, 2.5, None)),
    ],
)
def test_values_without_secrets(given, shown):
    assert masked(given) == shown
    assert masked(masked(given)) == shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("api_key=hush,n=1", "api_key=***,n=1"),
        ("m:x,password=two words, n=1", "m:x,password=***, n=1"),
        ("m:x,password=h&u;s(h", "m:x,password=***"),
        ('m:x,token=a(b"c,n=1', "m:x,token=***,n=1"),
        ("m:x,secrets={'a': 'hush', 'b': {'c': 'hush'}},n=1", "m:x,secrets=***,n=1"),
        (
            'm:x,body={"token": "hu,sh", "n": [1]}',
            'm:x,body={"token": "***", "n": [1]}',
        ),
        ('x="{\\"api_key\\": \\"hush\\"}"', 'x="{\\"api_key\\": \\"***\\"}"'),
        ("S(api_key='hush', n=1)", "S(api_key=***, n=1)"),
        ("{'api_key': 'hush', 'n': 1}", "{'api_key': '***', 'n': 1}"),
        ("api_key: hush\nn: 1", "api_key: ***\nn: 1"),
        ("--api-key=hush --n=1", "--api-key=***"),
        (
            "m:x,think_end_token=</a>,max_tokens=5",
            "m:x,think_end_token=</a>,max_tokens=5",
        ),
        ("m:x,key=hush,model_key=a", "m:x,key=***,model_key=a"),
        ("openai:m,api_key_env=MY_KEY", "openai:m,api_key_env=MY_KEY"),
    ],
)
def test_texts_of_names_and_values_without_secrets(given, shown):
    assert masked_text(given) == shown
    assert masked_text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a=" + "]" * 100_000,
        '{"a":' * 20_000,
        "a: " * 50_000,
        '"' * 100_000,
        "=" * 99_999,
    ],
)
def test_unusual_texts_take_no_time(text):
    assert masked_text(text) == text


SEEN = 'pl"ant<&>\\ed Ü-1'


def test_a_secret_is_masked_in_every_way_in_which_it_may_be_written():
    masked({"deep": [{"api_key": SEEN}]})
    texts = [
        f"a {SEEN} b",
        json.dumps({"x": SEEN}),
        json.dumps({"x": SEEN}, ensure_ascii=False),
        repr([SEEN]),
        "pl&quot;ant&lt;&amp;&gt;\\ed Ü-1",
        "pl%22ant%3C%26%3E%5Ced%20%C3%9C-1",
        "pl%22ant%3C%26%3E%5Ced+%C3%9C-1",
    ]
    for text in texts:
        assert "***" in hidden(text)
        assert "ant" not in hidden(text)
    assert str(OptionError(f"no {SEEN}")) == "no ***"


@pytest.mark.parametrize(
    "word", ["", "x", "EMPTY", "none", "password", "Password", "12345", "not-needed"]
)
def test_words_that_may_be_answers_are_not_searched_for(word):
    learn_secret(word)
    assert hidden(f"the answer is {word}.") == f"the answer is {word}."


def test_secrets_are_forgotten_with_their_session():
    with remembering():
        learn_secret("inner-secret-1")
        assert hidden("inner-secret-1") == "***"
    assert hidden("inner-secret-1") == "inner-secret-1"


def test_the_same_text_comes_back_where_nothing_is_known():
    text = "nothing of the kind"
    assert hidden(text) is text


def test_identities_depend_on_all_but_the_secret():
    def of(**body):
        return identity({"url": "http://h", "body": body})

    assert of(api_key="one-secret-1", n=1) == of(api_key="another-secret-2", n=1)
    assert of(api_key="one-secret-1", n=1) != of(api_key="one-secret-1", n=2)
    assert "secret" not in str(
        of(api_key="one-secret-1", access_tokens=["other-secret-1"])
    )


def test_schemas_of_answers_with_a_password_stay_different():
    def of(kind):
        return identity({"schema": {"properties": {"password": {"type": kind}}}})

    def as_text(kind):
        return identity({"grammar": json.dumps({"password": {"type": kind}})})

    assert of("string") != of("integer")
    assert of("string") == of("string")
    assert as_text("string") != as_text("integer")


def test_log_records_are_masked(caplog):
    learn_secret("logged-secret-1")
    with masking_logs():
        logging.getLogger("somebody").warning("GET %s", "http://h?x=logged-secret-1")
        try:
            raise ValueError("logged-secret-1")
        except ValueError:
            logging.getLogger("somebody").exception("failed")
    assert "logged-secret-1" not in caplog.text
    assert "GET http://h?x=***" in caplog.text
    assert "ValueError: ***" in caplog.text


NEW = """
    smtp_pass PASS db_pass dsn SENTRY_DSN sentry_dsn_url connection_string
    ConnectionString STORAGE_CONNECTION_STRING conn_str pat GITHUB_PAT webhook
    SLACK_WEBHOOK_URL auth_header X-Functions-Key functions_key host_key
"""
NOT_NEW = """
    pass@1 pass_1 first_pass multi_pass n_pass passes regex_pat path compass webhook_id
    connection string database header url auth_url
"""


@pytest.mark.parametrize("name", NEW.split())
def test_more_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", NOT_NEW.split())
def test_more_names_of_other_things(name):
    assert not is_secret_name(name)


def test_counts_of_passes_are_no_secrets():
    assert masked({"pass": 3, "dsn": "none"}) == {"pass": 3, "dsn": "none"}
    assert masked_text("pass=3") == "pass=3"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("base_url=http://me:pa#ss/w1@host/v1", "base_url=http://***@host/v1"),
        ("base_url=http://me:1a/b#c@host/v1", "base_url=http://***@host/v1"),
        ("http://host:8000/v1?mail=a@b", "http://host:8000/v1?mail=a@b"),
        ("https://h/api/f?code=a1b2c3d4e5", "https://h/api/f?code=***"),
        ("openai:m,api_key_env=sk-1234abcd", "openai:m,api_key_env=***"),
        ("openai:m,api_key_env=abcd1234efgh", "openai:m,api_key_env=***"),
        ("openai:m,api_key_env=OTHER_KEY", "openai:m,api_key_env=OTHER_KEY"),
        ("openai:m,api_key_env=my_key", "openai:m,api_key_env=my_key"),
        ('x=[["Proxy-Authorization", "hush1"]]', 'x=[["Proxy-Authorization", "***"]]'),
        ('x=["Password", "Username"]', 'x=["Password", "Username"]'),
    ],
)
def test_secrets_at_unusual_places_of_a_spec(given, shown):
    assert masked_text(given) == shown


def test_the_inner_secrets_of_connection_strings_and_addresses_are_learned():
    account = (
        "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=YWJjMTIzNDU2Nzg5=="
    )
    masked(
        {
            "connection_string": account,
            "dsn": "https://abc123def456@errors.test/17",
            "webhook": "https://hooks.test/services/T0001/B0002/abcDEF123456",
        }
    )
    for inner in ("YWJjMTIzNDU2Nzg5==", "abc123def456", "abcDEF123456"):
        assert hidden(f"with {inner} sent") == "with *** sent"


def test_secrets_of_the_environment_are_masked_whenever_they_are_set(monkeypatch):
    monkeypatch.setenv("FIRST_API_KEY", "planted-first-1")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:planted-url-2@db/x")
    monkeypatch.setenv("APP_CONFIG", '{"deep": {"token": "planted-deep-3"}}')
    watch_environment()
    assert hidden("planted-first-1 planted-url-2 planted-deep-3") == "*** *** ***"
    assert hidden("planted-later-4") == "planted-later-4"
    monkeypatch.setenv("LATER_PASSWORD", "planted-later-4")
    assert hidden("planted-later-4") == "***"
    monkeypatch.delenv("LATER_PASSWORD")
    assert hidden("planted-later-4") == "***"


def test_the_environment_of_a_session_is_forgotten_with_it(monkeypatch):
    monkeypatch.setenv("FIRST_API_KEY", "planted-first-1")
    with remembering():
        watch_environment()
        assert hidden("planted-first-1") == "***"
    assert hidden("planted-first-1") == "planted-first-1"


def test_words_paths_and_numbers_of_the_environment_are_not_secrets(
    monkeypatch, tmp_path
):
    values = {
        "DB_PASSWORD": "test",
        "SERVICE_TOKEN": "password",
        "APP_API_KEY": "123456",
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path),
        "MAX_TOKENS": "planted-not-1",
        "USER_NAME": "planted-not-2",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    watch_environment()
    text = " ".join(values.values())
    assert hidden(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sent planted-begin…", "sent ***…"),
        ("'sent planted-begin' … (900 characters)", "'sent ***' … (900 characters)"),
        ("'planted-begin...ends-here-9'", "'***...***'"),
        ("…ends-here-9", "…***"),
        ("'a planted-begin", "'a ***"),
        (
            "'sent planted-begin' and planted-beginnings",
            "'sent ***' and planted-beginnings",
        ),
        ("planted-be", "planted-be"),
        ("planted-begin and more…", "planted-begin and more…"),
    ],
)
def test_parts_of_a_secret_next_to_an_ellipsis_are_masked(text, shown):
    learn_secret("planted-beginning-and-ends-here-9")
    assert hidden(text) == shown


@pytest.mark.parametrize("before", ["", "m", "me", "me:"])
def test_a_secret_in_base64_is_masked_at_any_place_of_the_value(before):
    learn_secret("planted-base64-value-7")
    for encode in (b64encode, urlsafe_b64encode):
        text = encode(f"{before}planted-base64-value-7 more".encode()).decode()
        shown = hidden(text)
        assert "***" in shown
        left = shown.replace("***", "")
        assert len(text) - len(left) >= len("planted-base64-value-7") * 4 // 3 - 2


def test_the_lines_of_a_private_key_are_masked():
    body = ["MIIEvQIBADANBgkqhkiG9w0BAQ1", "EFAASCBKcwggSjAgEAAoIBAQ2"]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----"])
    learn_secret(key)
    assert hidden(f"E   {body[0]}\nE   {body[1]}") == "E   ***\nE   ***"
    assert hidden("-----BEGIN PUBLIC KEY-----") == "-----BEGIN PUBLIC KEY-----"


def test_secrets_are_masked_in_values_of_any_type():
    learn_secret("planted-value-1")
    response = Response(text="no planted-value-1", steps=({"x": ["planted-value-1"]},))
    shown = without_secrets((response, 1, None))
    assert shown == (Response(text="no ***", steps=({"x": ["***"]},)), 1, None)
    same = (Response(text="none"), {"a": [1]})
    assert without_secrets(same) is same
