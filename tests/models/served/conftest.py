"""A test server with faults on demand, in the formats of OpenAI's completions and of
vLLM. Its texts are canned, or come from a tiny model run by plain torch."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pytest_evals.core.request import Generate
from pytest_evals.models.http.retries import Backoff
from pytest_evals.models.openai.model import OpenAIModel
from pytest_evals.models.openai.settings import read_settings
from pytest_evals.models.registry import parse_spec

KEY = "sk-of-a-test-never-shown"


class Fault:
    """The fault of one request.

    Args:
        status: The reply's status.
        body: The reply, as text, as bytes or as JSON.
        chunks: The reply in parts, each sent as soon as it is made; instead of a body.
        headers: Further headers.
        slow_s: Delay of the reply.
        cut: Whether the connection is closed within the reply.
    """

    def __init__(
        self,
        status: int = 200,
        body: Any = "",
        headers: dict[str, str] | None = None,
        slow_s: float = 0.0,
        cut: bool = False,
        chunks: Callable[[], Iterator[bytes]] | None = None,
    ) -> None:
        self.status, self.headers = status, headers or {}
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        self.data = text.encode() if isinstance(text, str) else text
        self.slow_s, self.cut, self.chunks = slow_s, cut, chunks


class Served:
    """The server's state: the requests that it received, and its configuration."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.faults: deque[Fault | None] = deque()
        """Faults of the next requests, one after the other; ``None`` is no fault."""
        self.fault: Callable[[dict[str, Any]], Fault | None] = lambda body: None
        """Returns the fault of a request, by its body."""
        self.reply: Callable[[str, dict[str, Any]], dict[str, Any] | Fault] = canned
        self.models: Any = None
        """The models that it lists; ``None`` if it lists none."""
        self.running = 0
        self.most_running = 0
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.url = ""

    def source(self, path: str = "completions") -> str:
        """The model and the address in error messages."""
        return f"tiny at {self.url}/{path}"

    def take(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Fault:
        with self.lock:
            self.bodies.append((path, body))
            self.headers.append(headers)
            self.times.append(time.monotonic())
            fault = self.faults.popleft() if self.faults else None
        fault = fault or self.fault(body)
        reply = fault or self.reply(path, body)
        return reply if isinstance(reply, Fault) else Fault(body=reply)


def canned(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Repeats the prompt after "said "."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    if path.endswith("chat/completions"):
        content = body["messages"][-1]["content"]
        text = "said " + (content if isinstance(content, str) else content[0]["text"])
        choice = {"message": {"role": "assistant", "content": text}}
    else:
        choice = {"text": "said " + body["prompt"]}
    return {
        "choices": [{"index": 0, "finish_reason": "stop", **choice}],
        "usage": usage,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def do_GET(self) -> None:
        if self.served.models is None:
            self.send(Fault(404, {"detail": "Not Found"}))
        else:
            self.send(Fault(body=self.served.models))

    def do_POST(self) -> None:
        served = self.served
        with served.lock:
            served.running += 1
            served.most_running = max(served.most_running, served.running)
        try:
            size = int(self.headers["content-length"])
            body = json.loads(self.rfile.read(size))
            fault = served.take(
                self.path, body, {k.lower(): v for k, v in self.headers.items()}
            )
            time.sleep(fault.slow_s)
            self.send(fault)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with served.lock:
                served.running -= 1

    def send(self, fault: Fault) -> None:
        data = fault.data
        self.send_response(fault.status)
        self.send_header("content-type", "application/json")
        if fault.chunks is None:
            self.send_header("content-length", str(len(data)))
        else:
            self.send_header("transfer-encoding", "chunked")
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if fault.chunks is not None:
            for chunk in itertools.chain(fault.chunks(), [b""]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
        elif fault.cut:
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@pytest.fixture
def served() -> Iterator[Served]:
    """The state of a running server."""
    state = Served()
    handler = type("Handler", (_Handler,), {"served": state})
    server = _Server(("127.0.0.1", 0), handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def model_of(served: Served) -> Iterator[Callable[..., OpenAIModel]]:
    """A function from arguments of a spec to the model at that server, with pauses of
    milliseconds."""
    made: list[OpenAIModel] = []

    def model(name: str = "tiny", **arguments: object) -> OpenAIModel:
        given = {"base_url": served.url, **arguments}
        text = ",".join([f"openai:{name}", *(f"{k}={v}" for k, v in given.items())])
        spec = parse_spec(text)
        backoff = Backoff(first_s=0.002, most_s=0.01)
        made.append(OpenAIModel(str(spec), read_settings(spec), KEY, backoff))
        return made[-1]

    yield model
    for one in made:
        one.close()


@pytest.fixture
def by_ids(
    model_of: Callable[..., OpenAIModel], saved_model: Callable[[str], Any]
) -> OpenAIModel:
    """The model at that server, which is sent token ids."""
    return model_of(tokenizer=saved_model("gpt2"), max_retries=1)


@pytest.fixture
def check(oracle: Callable[[str], Any]) -> Callable[[Any, Any], None]:
    """A function that compares responses to log-likelihoods with a plain pass of
    torch."""

    def equal(found: Any, requests: Any) -> None:
        for request, response in zip(requests, found, strict=True):
            expected, greedy = oracle("gpt2").loglikelihood(
                request.context, request.continuation
            )
            assert response.error == ""
            assert response.logprob == pytest.approx(expected, abs=1e-5)
            assert response.greedy == greedy

    return equal


@pytest.fixture
def fault() -> type[Fault]:
    """The class of the server's faults."""
    return Fault


@pytest.fixture
def text_of() -> Callable[..., Generate]:
    """A function from a prompt to a greedy request."""

    def request(prompt: Any = "Q:", **fields: Any) -> Generate:
        return Generate(prompt, **fields)

    return request


class Tiny:
    """A tiny model behind the server: each token's log-probability by one plain forward
    pass of torch, in the formats of other servers.

    Args:
        oracle: Tokenizer and model.
        form: ``openai`` for echo with text offsets, ``vllm`` for echo whose
            offsets count the special token at the start, ``sglang`` for echo without
            offsets, ``prompt_logprobs`` for vLLM's own field, with echo rejected,
            ``unlisted`` for echo without the special token at the start and with empty
            parts of characters, as in llama-cpp-python 0.3,
            ``late`` for echo with the probabilities of the next position, as in
            llama-cpp-python for texts without BOS.
    """

    def __init__(self, oracle: Any, form: str) -> None:
        self.tokenizer, self.model, self.form = oracle.tokenizer, oracle.model, form
        self.lock = threading.Lock()

    def shares(self, ids: list[int]) -> Any:
        """Log-probabilities of the next token, for each position."""
        import torch

        with self.lock, torch.no_grad():
            return self.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)

    def __call__(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        sent = body["prompt"]
        ids = self.tokenizer.encode(sent) if isinstance(sent, str) else [*sent]
        if not {"echo", "prompt_logprobs"} & body.keys():
            return self.written(ids, body["max_tokens"])
        shares = self.shares(ids)
        ids.append(int(shares[-1].argmax()))
        if self.form == "late":
            shares = shares.roll(-1, 0)
        words = [self.spelled(i) for i in ids]
        values = [None, *(float(shares[n, i]) for n, i in enumerate(ids[1:]))]
        tops = [None, *(self.top(shares[n], i) for n, i in enumerate(ids[1:]))]
        usage = {"prompt_tokens": len(ids) - 1, "completion_tokens": 1}
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "length",
            "text": words[-1],
        }
        if body.get("echo") and self.form != "prompt_logprobs":
            text = sent if isinstance(sent, str) else self.tokenizer.decode(sent)
            choice["text"] = text + words[-1]
            choice["logprobs"] = {
                "tokens": words,
                "token_logprobs": values,
                "top_logprobs": tops,
                "text_offset": self.places(words, ids),
            }
            if self.form == "unlisted":
                lists = {name: of[1:] for name, of in choice["logprobs"].items()}
                lists["token_logprobs"][0] = lists["top_logprobs"][0] = None
                choice["logprobs"] = lists
        if "prompt_logprobs" in body and self.form == "prompt_logprobs":
            choice["prompt_logprobs"] = [
                None,
                *(self.entry(shares[n], i) for n, i in enumerate(ids[1:-1])),
            ]
        return {"choices": [choice], "usage": usage}

    def written(self, ids: list[int], n_tokens: int) -> dict[str, Any]:
        """The model's most likely tokens, one per position."""
        new: list[int] = []
        while len(new) < n_tokens:
            new.append(int(self.shares(ids + new)[-1].argmax()))
        words = [self.spelled(i) for i in new]
        text = self.tokenizer.decode(new)
        return {"choices": [{"text": text, "logprobs": {"tokens": words}}]}

    def spelled(self, token: int) -> str:
        """OpenAI spells parts of characters as bytes, the others as U+FFFD."""
        word: str = self.tokenizer.decode([token])
        if self.form == "openai" and "\ufffd" in word:
            return f"bytes:{self.tokenizer.convert_ids_to_tokens(token)}"
        if self.form == "unlisted":
            return word.replace("\ufffd", "")
        return word

    def top(self, row: Any, token: int) -> dict[str, float]:
        best = int(row.argmax())
        return {self.spelled(i): float(row[i]) for i in (best, token)}

    def entry(self, row: Any, token: int) -> dict[str, Any]:
        rank = int((row > row[token]).sum()) + 1
        word = self.tokenizer.decode([token])
        one = {"logprob": float(row[token]), "rank": rank, "decoded_token": word}
        return {str(token): one}

    def places(self, words: list[str], ids: list[int]) -> list[int]:
        if self.form == "sglang":
            return [-1] * len(words)
        bos = ids[0] == self.tokenizer.bos_token_id
        counted, at = [], 0
        for n, word in enumerate(words):
            if self.form in ("openai", "unlisted"):
                at = len(self.tokenizer.decode(ids[bos:n]).rstrip("\ufffd"))
            counted.append(at)
            at += len(word)
        return counted


@pytest.fixture
def tiny(oracle: Callable[[str], Any]) -> Callable[..., Tiny]:
    """A function from a kind of model and a format to the server's replies."""

    def reply(kind: str = "gpt2", form: str = "openai") -> Tiny:
        return Tiny(oracle(kind), form)

    return reply


class Windowed(Tiny):
    """As vLLM 0.32, whose window has ``window`` tokens: it needs room for one new token
    in any case, and generates fewer than requested if there is less room. It rejects
    longer requests with its own message."""

    def __init__(self, oracle: Any, form: str, window: int) -> None:
        super().__init__(oracle, form)
        self.window = window

    def __call__(self, path: str, body: dict[str, Any]) -> dict[str, Any] | Fault:
        sent = body.get("prompt")
        if sent is None:
            sent = self.tokenizer.apply_chat_template(
                body["messages"], tokenize=False, add_generation_prompt=True
            )
        ids = self.tokenizer.encode(sent) if isinstance(sent, str) else [*sent]
        most = body.get("max_tokens", 16)
        if len(ids) > self.window:
            return self.refused(
                f"This model's maximum context length is {self.window} tokens. However,"
                f" you requested {most} output tokens and your prompt contains "
                f"{len(ids)} input tokens. Please reduce the length of the messages."
            )
        if len(ids) == self.window:
            return self.refused("max_tokens must be at least 1, got 0.")
        if {"echo", "prompt_logprobs"} & body.keys():
            return super().__call__(path, {**body, "prompt": ids})
        reply = self.written(ids, min(most, self.window - len(ids)))
        (choice,) = reply["choices"]
        n_new = len(choice["logprobs"]["tokens"])
        choice["finish_reason"] = "length"
        if path.endswith("chat/completions"):
            choice["message"] = {"role": "assistant", "content": choice.pop("text")}
        usage = {"prompt_tokens": len(ids), "completion_tokens": n_new}
        return {**reply, "usage": usage}

    def refused(self, words: str) -> Fault:
        return Fault(400, {"error": {"message": words, "code": 400}})


@pytest.fixture
def windowed(oracle: Callable[[str], Any]) -> Callable[..., Windowed]:
    """A function from a kind of model, a format and a window to a server's replies."""

    def reply(
        kind: str = "gpt2", form: str = "prompt_logprobs", window: int = 64
    ) -> Windowed:
        return Windowed(oracle(kind), form, window)

    return reply
