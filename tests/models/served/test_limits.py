"""Replies without end, in size or in time, compressed or not, and redirects: each is an
error of its document, costs little memory, and nothing is sent to another origin. The
same holds for ``openai:`` models and for those of LatticeFlow's files."""

from __future__ import annotations

import json
import time
import tracemalloc
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from pytest_evals.core.request import Generate, Message
from pytest_evals.errors import ModelError
from pytest_evals.guests.latticeflow.http_model import Connection, HttpModel
from pytest_evals.guests.latticeflow.models import BUILT_IN, ModelInfo
from pytest_evals.models.http.client import reply_limit
from pytest_evals.models.http.retries import Backoff

MB = 2**20
TOO_LARGE = " bytes, the limit for this request"
RAW, ZLIB, GZIP = -15, 15, 31


@pytest.fixture(params=["openai", "latticeflow"])
def model(request, served, model_of):
    """A function from arguments to a model of each kind at the server."""
    made = []

    def latticeflow(**arguments):
        connection = Connection(
            url=f"{served.url}/chat/completions",
            headers={"api-key": "sk-of-a-test-never-shown"},
            **arguments,
        )
        backoff = Backoff(first_s=0.002, most_s=0.01)
        adapter = BUILT_IN["latticeflow$openai_chat_completion"]
        info = ModelInfo("tiny", "tiny")
        made.append(HttpModel(info, adapter, connection, {}, backoff))
        return made[-1]

    yield model_of if request.param == "openai" else latticeflow
    for one in made:
        one.close()


def chat(text, **fields):
    return Generate((Message("user", text),), **fields)


def fault_for_bad(fault, **wrong):
    """A fault for the chats that contain "bad"."""
    return lambda body: (
        fault(**wrong) if "bad" in body["messages"][-1]["content"] else None
    )


def replied(text):
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"choices": [choice]}).encode()


def compressed(data, kind):
    made = zlib.compressobj(9, zlib.DEFLATED, kind)
    return made.compress(data) + made.flush()


def bomb(kind, megabytes):
    made = zlib.compressobj(9, zlib.DEFLATED, kind)
    zeros = b" " * MB
    return b"".join(made.compress(zeros) for _ in range(megabytes)) + made.flush()


def peak_of(call):
    tracemalloc.start()
    try:
        found = call()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("status", [200, 400, 503])
@pytest.mark.parametrize("whole", [True, False], ids=["with its length", "chunked"])
def test_a_reply_without_end_is_left_early(served, model, ask, fault, status, whole):
    sent = []

    def endless():
        while True:
            sent.append(MB)
            yield b" " * MB

    large = {"body": b" " * 40 * MB} if whole else {"chunks": endless}
    served.fault = fault_for_bad(fault, status=status, **large)
    opened = model(max_retries=2)
    ask(opened, chat("first"))
    (bad, good), peak = peak_of(lambda: ask(opened, chat("bad"), chat("good")))
    assert TOO_LARGE in bad.error
    assert f"returned {status}" in bad.error or status == 200
    assert good.error == ""
    # An overloaded server gets a retry, for any content of its reply.
    n = 3 if status == 503 else 1
    assert sum("bad" in str(body) for _, body in served.bodies) == n
    assert whole or sum(sent) < n * 32 * MB
    assert peak < (90 if whole else 45) * MB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "kinds"),
    [
        ("gzip", [GZIP]),
        ("x-gzip", [GZIP]),
        ("deflate", [ZLIB]),
        ("deflate", [RAW]),
        ("gzip, gzip", [GZIP, GZIP]),
        ("deflate, gzip", [ZLIB, GZIP]),
        ("identity", []),
    ],
)
def test_a_compressed_reply_is_read_and_one_that_grows_without_end_is_not(
    served, model, ask, fault, encoding, kinds
):
    def sent(data, megabytes):
        first, *others = kinds or [None]
        data = bomb(first, megabytes) if megabytes and first else data
        for kind in others if megabytes else kinds:
            data = compressed(data, kind)
        return {"body": data, "headers": {"content-encoding": encoding}}

    served.fault = lambda body: fault(**sent(replied("yes"), 0))
    opened = model(max_retries=2)
    (good,) = ask(opened, chat("good"))
    assert "yes" in good.text
    if kinds:
        served.fault = fault_for_bad(fault, **sent(b"", 100))
        (bad,), peak = peak_of(lambda: ask(opened, chat("bad")))
        assert TOO_LARGE in bad.error
        assert peak < 40 * MB
        assert len(served.bodies) == 2


@pytest.mark.parametrize("kind", ["nothing inside", "garbage behind"])
def test_compressed_data_without_end_is_left_early(served, model, ask, fault, kind):
    """A megabyte that is 200,000 empty blocks, or follows after the end."""

    def endless():
        if kind == "garbage behind":
            yield compressed(replied("yes"), GZIP)
            block = b"x" * MB
        else:
            yield zlib.compressobj(9, zlib.DEFLATED, GZIP).flush(zlib.Z_SYNC_FLUSH)
            block = b"\x00\x00\x00\xff\xff" * (MB // 5)
        while True:
            yield block

    headers = {"content-encoding": "gzip"}
    served.fault = fault_for_bad(fault, chunks=endless, headers=headers)
    opened = model()
    ask(opened, chat("first"))
    (bad,), peak = peak_of(lambda: ask(opened, chat("bad")))
    assert TOO_LARGE in bad.error
    assert peak < 30 * MB


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("br", "has the encoding 'br', which was not requested"),
        ("gzip, zstd", "has the encoding 'zstd', which was not requested"),
        (", ".join(["gzip"] * 999), "has 999 encodings"),
    ],
)
def test_an_unrequested_compression_is_an_error(
    served, model, ask, fault, encoding, message
):
    headers = {"content-encoding": encoding}
    served.fault = fault_for_bad(fault, body=replied("yes"), headers=headers)
    opened = model()
    ask(opened, chat("first"))
    assert served.headers[0]["accept-encoding"] == "gzip, deflate"
    (bad,) = ask(opened, chat("bad"))
    assert bad.error == f"{served.source('chat/completions')}: the reply {message}"


@pytest.mark.slow
def test_a_reply_that_drips_ends_with_the_timeout(served, model, ask, fault):
    def drops():
        while True:
            time.sleep(0.05)
            yield b" "

    served.fault = fault_for_bad(fault, chunks=drops)
    opened = model(timeout=0.5, max_retries=1)
    ask(opened, chat("first"))
    began = time.monotonic()
    (bad,) = ask(opened, chat("bad"))
    assert bad.error.endswith("/chat/completions: no reply within 0.5 s (2 attempts)")
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_the_reply_limit_allows_a_long_requested_answer(served, model_of, ask):
    """20 alternatives for each of 7,500 tokens."""
    entry = {"token": " a token", "logprob": -12.345678901234567, "bytes": [32] * 8}
    tops = {"tokens": [{**entry, "top_logprobs": [entry] * 20}] * 7500}
    served.reply = lambda path, body: {
        "choices": [{"text": "yes", "finish_reason": "length", "logprobs": tops}]
    }
    extra = '{"logprobs": true, "top_logprobs": 20}'
    request = Generate("Q:", max_tokens=7500)
    (found,) = ask(model_of(extra_body=extra), request)
    assert found.text == "yes"
    (found,) = ask(model_of(), Generate("Q:", max_tokens=16))
    assert TOO_LARGE in found.error


@pytest.mark.parametrize(
    ("prompt", "n_tokens"),
    [
        ({}, 0),
        ({"max_tokens": 100}, 100),
        ({"max_completion_tokens": 100, "n": 3}, 300),
        ({"max_tokens": 100, "logprobs": True, "top_logprobs": 20}, 2100),
        ({"max_tokens": "100", "n": None, "logprobs": -5}, 0),
        ([1], 0),
        ("[" * 100_000, 0),
    ],
)
def test_the_limit_of_a_reply_depends_on_the_requested_tokens(prompt, n_tokens):
    content = prompt if isinstance(prompt, str) else json.dumps(prompt)
    least, most = 8 * MB + 100 * n_tokens, 8 * MB + 600 * n_tokens
    assert least <= reply_limit(content.encode()) <= most


def test_the_limit_of_a_reply_is_never_beyond_all_memory():
    assert reply_limit(b'{"max_tokens": 1000000000000}') <= 256 * MB
    prompt = json.dumps({"prompt": "a" * 9000, "echo": True, "logprobs": 1})
    assert reply_limit(prompt.encode()) > 8 * MB + 9000 * 200


@pytest.fixture
def elsewhere():
    """The address of another server, and the list of its requests."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            received.append(dict(self.headers))
            data = replied("stolen")
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args):
            """Log nothing to standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_origin_is_not_followed(
    served, model, ask, fault, elsewhere, status
):
    address, received = elsewhere
    headers = {"location": f"{address}/v1/chat/completions?key=hush"}
    served.fault = fault_for_bad(fault, status=status, headers=headers)
    message = (
        f"the server redirects to another origin, {address}: prompts and keys are "
    )
    opened = model()
    with pytest.raises(ModelError) as caught:
        ask(opened, chat("bad"))
    assert message in str(caught.value)
    assert "fix: if you trust the address that it redirects to, " in str(caught.value)
    ask(opened, chat("first"))
    bad, good = ask(opened, chat("bad"), chat("good"))
    assert message in bad.error
    assert "hush" not in bad.error + str(caught.value)
    assert "said good" in good.text
    assert received == []


@pytest.mark.parametrize(
    "location",
    [
        "https://127.0.0.1:{port}/v1/chat/completions",
        "http://localhost:{port}/v1/chat/completions",
        "//localhost:{port}/v1",
        "http://127.0.0.1/v1",
        "http://127.0.0.1:{port}@localhost:{port}/v1",
        "file:///etc/passwd",
    ],
)
def test_an_origin_is_scheme_host_and_port(served, model, ask, fault, location):
    port = served.url.split(":")[2].split("/")[0]
    headers = {"location": location.format(port=port)}
    served.fault = fault_for_bad(fault, status=307, headers=headers)
    with pytest.raises(ModelError, match="redirects to another origin"):
        ask(model(), chat("bad"))
    assert len(served.bodies) == 1


def test_a_redirect_at_the_same_origin_is_followed_with_prompt_and_key(
    served, model, ask, fault
):
    headers = {"location": "/v1/elsewhere/chat/completions"}
    served.faults.append(fault(status=307, headers=headers))
    (found,) = ask(model(), chat("good"))
    assert "said good" in found.text
    (_, first), (path, second) = served.bodies
    assert path == "/v1/elsewhere/chat/completions"
    assert first == second
    assert "sk-of-a-test-never-shown" in str(served.headers[1])


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_drops_the_prompt_is_not_followed(
    served, model, ask, fault, status
):
    headers = {"location": "/v2/chat/completions"}
    served.fault = fault_for_bad(fault, status=status, headers=headers)
    opened = model()
    ask(opened, chat("first"))
    (bad,) = ask(opened, chat("bad"))
    assert bad.error.partition("\n")[0] == (
        f"{served.source('chat/completions')}: the server redirects with status "
        f"{status}, which drops the prompt, to '/v2/chat/completions'"
    )


def test_a_redirect_without_location_is_an_error(served, model, ask, fault):
    served.fault = fault_for_bad(fault, status=302, body=replied("yes"))
    opened = model()
    ask(opened, chat("first"))
    (bad,) = ask(opened, chat("bad"))
    assert "/chat/completions: the server returned 302: " in bad.error
