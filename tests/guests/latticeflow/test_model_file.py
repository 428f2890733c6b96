"""Model and adapter files: the models that they define, and errors in them."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_evals.core.request import Generate, Message
from pytest_evals.errors import DocumentError, TaskFileError
from pytest_evals.guests.latticeflow.entities import entities_in
from pytest_evals.guests.latticeflow.model_file import read_adapter, read_model
from pytest_evals.guests.latticeflow.models import BUILT_IN, ModelInfo
from pytest_evals.guests.latticeflow.reader import read_entity_file
from pytest_evals.guests.latticeflow.solvers.model_client import ModelClient

HEAD = 'key: "m"\ndisplay_name: "M"\n'
ECHO = """
config:
  connection_type: custom_inference
  adapter: {key: "latticeflow$openai_chat_completion"}
  environment: {HELLO: "hi "}
  timeout: 5
  run_inference_snippet: |
    import json

    def run_inference(body, environment, sample=None):
        given = json.loads(body)
        text = (sample or {}).get("target") or given["messages"][-1]["content"]
        reply = {"role": "assistant", "content": environment["HELLO"] + text}
        usage = {"prompt_tokens": 3, "completion_tokens": 1}
        return json.dumps({"choices": [{"message": reply}], "usage": usage})
"""
ADAPTER = """
key: "wrapped"
display_name: "Adapter"
process_input:
  language: "jinja"
  source_code: |
    {"prompt": {{ input.messages[-1].content | tojson }},
     "model": {{ model_info.model_key | tojson }}, "n": {{ kwargs.n | default(1) }}}
process_output:
  language: "jinja"
  source_code: |
    {% set reply = body | fromjson %}
    {"choices": [{"message": {"role": "assistant",
                              "content": {{ reply.text | tojson }}}}],
     "usage": {"num_prompt_tokens": {{ reply.n_in | default(0) }}}}
"""


@pytest.fixture
def entity(tmp_path: Path):
    def of(text):
        path = tmp_path / "m.yaml"
        path.write_text(dedent(text), encoding="utf-8")
        (found,) = entities_in(read_entity_file(path))
        return found

    return of


@pytest.fixture
def model_of(entity):
    def of(text, adapters=None):
        one = entity(HEAD + dedent(text))
        return read_model(one, one.file.values["config"], adapters or _no_adapter)

    return of


def _no_adapter(key, section):
    section.problem("key", f"there is no adapter {key!r}")


def ask(file, text, sample=None):
    """The model's output for a user message."""
    line = ModelClient(native=True, takes_sample=file.takes_sample)
    chat = {"messages": [{"role": "user", "content": text}]}
    request = line.ask(chat, sample or {}).request
    ((place, response),) = file.source().answer([request])
    assert place == 0
    return line.read(response), response


def test_a_function_answers(model_of):
    file = model_of(ECHO)
    assert (file.native, file.takes_sample) == (True, True)
    found, response = ask(file, "you")
    assert found.text == "hi you"
    assert (response.n_prompt_tokens, response.n_tokens) == (3, 1)
    assert ask(file, "you", {"target": "T"})[0].text == "hi T"


def test_reports_contain_the_prompt_of_a_chat(model_of):
    """Except if the input is more than a chat."""
    line = ModelClient(native=True)
    chat = {"messages": [{"role": "user", "content": "a"}]}
    assert line.ask(chat, {}).request.prompt == (Message("user", "a"),)
    more = line.ask({**chat, "top": 1}, {}).request
    assert json.loads(more.prompt) == {**chat, "top": 1}


def test_a_function_without_sample_is_not_given_one(model_of):
    file = model_of(ECHO.replace(", sample=None", "").replace("(sample or {})", "{}"))
    assert not file.takes_sample
    assert ask(file, "you", {"target": "T"})[0].text == "hi you"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3", "run_inference returns a text, not 3"),
        (
            "return 'no'",
            "the reply is not JSON (Expecting value: line 1 column 1 (char 0)): 'no'",
        ),
        ("return '{}'", "the reply has no choices: '{}'"),
        ("return {}['x']", "run_inference: KeyError: 'x'"),
    ],
)
def test_a_function_that_fails_is_an_error_of_its_document(model_of, body, message):
    yaml = ECHO.replace("given = json.loads(body)", body)
    with pytest.raises(DocumentError) as caught:
        ask(model_of(yaml), "a")
    assert message in str(caught.value)


def test_a_model_may_say_that_it_failed(model_of):
    yaml = ECHO.replace("openai_chat_completion", "identity").replace(
        "given = json.loads(body)", "return json.dumps({'error': 'too hot'})"
    )
    with pytest.raises(DocumentError, match="the model returned an error: too hot"):
        ask(model_of(yaml), "a")


def test_an_adapter_is_two_templates(entity):
    adapter = read_adapter(entity(ADAPTER))
    info = ModelInfo("m", "tiny")
    given = {"messages": [{"role": "user", "content": 'say "a"'}]}
    assert json.loads(adapter.to_body(given, {}, info)) == {
        "prompt": 'say "a"',
        "model": "tiny",
        "n": 1,
    }
    output = adapter.to_output('{"text": "A", "n_in": 2}', 200, info)
    assert output["choices"][0]["message"]["content"] == "A"
    assert output["usage"] == {"num_prompt_tokens": 2}
    with pytest.raises(DocumentError, match="unknown field 'text'; did you mean 'txt'"):
        adapter.to_output('{"txt": 1}', 200, info)
    assert not adapter.takes_faults
    looking = ADAPTER.replace("{% set", "{# status_code #}{% set")
    assert read_adapter(entity(looking)).takes_faults


def test_the_built_in_adapters_speak_their_apis():
    """Request bodies as in OpenAI's reference of each API."""
    info = ModelInfo("m", "gpt-x")
    chat = {"messages": [{"role": "user", "content": "a"}], "temperature": 0.5}
    responses = BUILT_IN["latticeflow$openai_responses"]
    assert json.loads(responses.to_body(chat, {}, info)) == {
        "model": "gpt-x",
        "input": [{"role": "user", "content": "a"}],
        "temperature": 0.5,
    }
    item = {"type": "message", "role": "assistant", "content": []}
    reply = {"output": [item], "usage": {"input_tokens": 1, "output_tokens": 2}}
    assert responses.to_output(json.dumps(reply), 200, info) == {
        "items": [item],
        "usage": {"num_prompt_tokens": 1, "num_completion_tokens": 2},
    }
    completion = BUILT_IN["latticeflow$openai_chat_completion"]
    body = json.loads(completion.to_body(chat, {"n": 1}, info))
    assert body == {"model": "gpt-x", **chat, "n": 1}
    identity = BUILT_IN["latticeflow$identity"]
    assert json.loads(identity.to_body(["a"], {}, info)) == ["a"]
    assert identity.to_output('{"embeddings": [[1]]}', 200, info) == {
        "embeddings": [[1]]
    }


def test_a_provider_is_a_server_that_speaks_openais_language(model_of, monkeypatch):
    yaml = """
    max_concurrent_requests: 4
    config:
      connection_type: provider_connection
      provider_id: together
      model_key: "org/model,x"
    """
    file = model_of(yaml)
    assert not file.native
    assert file.source == (
        'openai:"org/model,x",base_url=https://api.together.xyz/v1,'
        "api_key_env=TOGETHER_API_KEY,concurrency=4"
    )
    monkeypatch.setenv("TOGETHER_BASE_URL", "http://localhost:1/v1")
    assert "base_url=http://localhost:1/v1" in model_of(yaml).source


def test_a_placeholder_returns_an_empty_text(model_of):
    file = model_of("config: {connection_type: placeholder}")
    assert ask(file, "a")[0].text == ""


def test_requests_follow_the_adapter_file(entity):
    """With the adapter of a file and a key, against a server in this process."""
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.headers["Authorization"], json.loads(body)))
            reply = b'{"text": "hello", "n_in": 2}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_args):
            """Log nothing to standard error."""

    adapter = read_adapter(entity(ADAPTER))
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        config = (
            f"{HEAD}config:\n  url: http://127.0.0.1:{server.server_port}/x\n"
            "  api_key: k3y\n  model_key: tiny\n  adapter: {key: wrapped}\n"
        )
        file = read_model(entity(config), {}, lambda key, section: adapter)
        model = file.source()
        line = ModelClient(native=True)
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        ((_, response),) = model.answer([line.ask(chat, {}).request])
        model.close()
        thread.join()
    assert line.read(response).text == "hello"
    assert seen == [("Bearer k3y", {"prompt": "hi", "model": "tiny", "n": 1})]
    assert response.n_prompt_tokens == 2


def test_models_with_equal_files_are_one(model_of):
    one, same = model_of(ECHO), model_of(ECHO)
    other = model_of(ECHO.replace("hi ", "ho "))
    assert one.source == same.source != other.source
    assert one.source().fingerprint == same.source().fingerprint
    assert one.source().fingerprint != other.source().fingerprint


def test_secrets_are_in_no_fingerprint(entity):
    """The id is computed from the file before secrets are substituted."""
    url = "\nconfig: {url: http://h/, api_key: "
    filled, raw = entity(f"{HEAD}{url}s3cret}}"), {"api_key": "<< secrets.K >>"}
    file = read_model(filled, raw, _no_adapter)
    other = read_model(entity(f"{HEAD}{url}other}}"), raw, _no_adapter)
    assert file.source == other.source
    assert "s3cret" not in repr(file)


def test_such_models_give_no_log_probabilities(model_of):
    from pytest_evals.core.request import Rolling

    ((_, response),) = model_of(ECHO).source().answer([Rolling("a")])
    assert "gives no log-probabilities" in response.error


def test_calls_of_a_function_may_run_side_by_side(model_of):
    yaml = "max_concurrent_requests: 3\n" + ECHO.replace(
        "given = json.loads(body)",
        "given = json.loads(body); barrier.wait(5)",
    ).replace(
        "import json\n", "import json, threading\n    barrier = threading.Barrier(3)\n"
    )
    requests = [Generate(f"{n}") for n in range(3)]
    found = dict(model_of(yaml).source().answer(requests))
    assert [found[n].error for n in range(3)] == ["", "", ""]
    assert [
        json.loads(found[n].text)["choices"][0]["message"]["content"] for n in range(3)
    ] == ["hi 0", "hi 1", "hi 2"]


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (
            "config: {}",
            'm.yaml:3: url is missing\n  fix: url: "http://localhost:8000/complete"',
        ),
        ("config: {url: here}", "m.yaml:3: url is not a valid URL: 'here'"),
        (
            "config: {connection_type: custom_infernce}",
            "m.yaml:3: unknown connection type 'custom_infernce'; did you mean "
            "'custom_inference'?\n  fix: connection_type: custom_inference",
        ),
        (
            "config: {connection_type: dify, app: 3}",
            "m.yaml:3: models with connection_type: dify are not supported\n"
            "  fix: select another model with --model (or --evals-judge for a judge)",
        ),
        (
            "config: {connection_type: provider_connection, provider_id: openia, "
            "model_key: a}",
            "m.yaml:3: unknown provider 'openia'; did you mean 'openai'?\n"
            "  fix: provider_id: openai",
        ),
        (
            "config: {connection_type: custom_inference, environment: {}, timeout: 0, "
            "run_inference_snippet: 'def run_inference(b, e): pass'}",
            "m.yaml:3: timeout must be a number of seconds above 0\n  fix: timeout: 60",
        ),
        (
            "config: {url: 'http://h', adapter: {key: nope}}",
            "m.yaml:3: there is no adapter 'nope'",
        ),
        (
            "config: {url: 'http://h', tls_context: {validation_context: "
            "{trusted_ca: '%%'}}}",
            "m.yaml:3: trusted_ca must be a base64-encoded certificate",
        ),
        (
            "rate: 3\nconfig: {url: 'http://h'}",
            "m.yaml:3: a model has no key 'rate'; did you mean 'rate_limit'?",
        ),
        (
            "max_requests: 0\nconfig: {url: 'http://h'}",
            "m.yaml:3: the model's max_requests is '0'; write a whole number from 1",
        ),
        (
            "max_cost: 2\nconfig: {url: 'http://h'}",
            "m.yaml:3: the model takes max_cost only with prices",
        ),
        (
            "price_in: -1\nconfig: {url: 'http://h'}",
            "m.yaml:3: the model's price_in is '-1'; write a number, 0 or more",
        ),
        (
            "max_requests: 5\nconfig: {connection_type: placeholder}",
            "m.yaml:3: models with connection_type: placeholder have no spend cap",
        ),
        (
            "config: {url: 'http://h', headers: {}}",
            "m.yaml:3: a connection of type custom_connection has no key 'headers'; "
            "did you mean 'custom_headers'?",
        ),
        (
            "task: chat\nconfig: {url: 'http://h'}",
            "m.yaml:3: unknown kind of model 'chat'; did you mean 'chat_completion'?",
        ),
    ],
)
def test_an_invalid_model_is_reported_with_its_line(model_of, tmp_path, yaml, message):
    with pytest.raises(TaskFileError) as caught:
        model_of(yaml)
    text = str(caught.value).replace(f"{tmp_path}/", "")
    assert text.splitlines()[: message.count("\n") + 1] == message.splitlines()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("process_input", "process_inputs", "no key 'process_inputs'"),
        ('language: "jinja"', 'language: "python"', "unknown language 'python'"),
        (
            "{% set",
            "{% st",
            "source_code is not a valid template: Encountered unknown tag 'st'",
        ),
    ],
)
def test_an_invalid_adapter_is_reported(entity, old, new, message):
    with pytest.raises(TaskFileError, match=message):
        read_adapter(entity(ADAPTER.replace(old, new)))
