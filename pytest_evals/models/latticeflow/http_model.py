"""A model at a URL: one POST per call, within its rate limit.

Retries and error classes are those of ``openai:`` models.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pytest_evals.core.model import Model
from pytest_evals.core.request import Request, Response
from pytest_evals.errors import DocumentError
from pytest_evals.masking.registry import hidden
from pytest_evals.masking.values import masked, masked_text
from pytest_evals.models.latticeflow.adapters import Adapter, ModelInfo
from pytest_evals.models.latticeflow.function_model import NO_SCORES
from pytest_evals.models.latticeflow.messages import model_input_of, response_of
from pytest_evals.models.openai.errors import (
    BUSY,
    REDIRECTED,
    UNREACHED,
    RequestFailedError,
    status_error,
)
from pytest_evals.models.openai.event_loop import BackgroundLoop
from pytest_evals.models.openai.http_client import HttpClient, wait_of
from pytest_evals.models.openai.retries import Backoff, RetryingClient
from pytest_evals.models.openai.usage import METER, RequestMeter, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Address and request settings of a model.

    Args:
        url: The address.
        headers: Sent with each call; they may hold secrets.
        concurrency: Most calls at the same time.
        per_minute: Most calls a minute, 0 for any number.
        timeout: Seconds that one reply may take.
        max_retries: Maximum of retries if the server is busy or fails.
        verify: Whether the server must prove who it is.
        trusted_ca: Certificates in PEM that it may prove that by, empty for the usual.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    concurrency: int = 8
    per_minute: float = 0.0
    timeout: float = 300.0
    max_retries: int = 8
    verify: bool = True
    trusted_ca: str = field(default="", repr=False)


class _Sender:
    """A client with persistent connections and a rate limit."""

    def __init__(self, connection: Connection, takes_faults: bool) -> None:
        self._connection = connection
        self._takes_faults = takes_faults
        masked(dict(connection.headers), loose=True)
        self._secrets = [v for v in connection.headers.values() if len(v) > 6]
        self._next = 0.0
        self._client = HttpClient(
            masked_text(connection.url),
            connection.timeout,
            headers=dict(connection.headers),
            verify=_verifying(connection),
        )

    async def post(self, path: None, body: Mapping[str, Any]) -> Mapping[str, Any]:
        await self._slot()
        try:
            reply = await self._client.post(
                self._connection.url,
                content=body["text"],
                headers={"Content-Type": "application/json"},
            )
        except RequestFailedError as fault:
            raise self._safe(fault) from None
        return self._read(reply)

    def address(self, path: None) -> str:
        return masked_text(self._connection.url)

    def fix(self, kind: str, path: None) -> str:
        return _FIXES.get(kind, "")

    async def close(self) -> None:
        await self._client.aclose()

    def _read(self, reply: Any) -> Mapping[str, Any]:
        status = reply.status_code
        own = self._takes_faults and 400 <= status < 500 and status not in BUSY
        if not (reply.is_success or own):
            raise self._safe(status_error(status, reply.text, wait_of(reply)))
        return {"text": hidden(reply.text), "status": status}

    async def _slot(self) -> None:
        """Wait for the rate limit."""
        if not self._connection.per_minute:
            return
        now = asyncio.get_running_loop().time()
        begin = max(now, self._next)
        self._next = begin + 60 / self._connection.per_minute
        await asyncio.sleep(begin - now)

    def _safe(self, fault: RequestFailedError) -> RequestFailedError:
        """Mask the key, which a server may repeat."""
        for secret in self._secrets:
            bare = secret.removeprefix("Bearer ")
            fault.what = fault.what.replace(secret, "***").replace(bare, "***")
        return fault


_FIXES = {
    UNREACHED: "start the server, or see url: in the model's file",
    REDIRECTED: "if you trust the address that it redirects to, give that by url: in "
    "the model's file",
    "401": "see api_key and secrets of the model's file",
    "403": "see api_key and secrets of the model's file",
    "404": "see url: in the model's file",
}


def _verifying(connection: Connection) -> Any:
    if not connection.verify:
        return False
    if not connection.trusted_ca:
        return True
    return ssl.create_default_context(cadata=connection.trusted_ca)


class HttpModel(Model):
    """A server; requests run concurrently in a background thread."""

    def __init__(
        self,
        info: ModelInfo,
        adapter: Adapter,
        connection: Connection,
        fingerprint: Mapping[str, Any],
        backoff: Backoff | None = None,
    ) -> None:
        """Create the client and its event loop.

        Args:
            info: Its name, and what the adapter may know.
            adapter: Makes bodies, and reads replies.
            connection: Address and request settings.
            fingerprint: Equal for models with equal answers.
            backoff: Pauses between attempts.
        """
        self.name = info.name
        self.fingerprint: Mapping[str, Any] | None = fingerprint
        self._info, self._adapter, self._connection = info, adapter, connection
        self._usage = Usage(0, 0)
        self.info: dict[str, Any] = {
            "model": info.name,
            "base_url": masked_text(connection.url),
            "usage": self._usage.shown,
        }
        self._background = BackgroundLoop()
        self._sender, self._client = self._background.run(
            _made(connection, adapter, self._usage, backoff or Backoff())
        )

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer all requests, in the order of the replies.

        Raises:
            ModelError: The server cannot be reached, or refuses every request.
        """
        work = [partial(self._one, n, request) for n, request in enumerate(requests)]
        yield from self._background.stream(work, self._connection.concurrency)

    def close(self) -> None:
        """Cancel running requests and close the connections."""
        self._background.close(self._sender.close)

    async def _one(self, place: int, request: Request) -> tuple[int, Response]:
        given = model_input_of(request)
        if given is None:
            return place, Response(error=NO_SCORES)
        METER.set(meter := RequestMeter())
        began = time.perf_counter()
        try:
            body = self._adapter.to_body(given.input, given.kwargs, self._info)
            output = await self._client.ask(None, {"text": body}, self._output)
        except RequestFailedError as fault:
            return place, Response(error=fault.what)
        except DocumentError as error:
            return place, Response(error=str(error))
        share = (time.perf_counter() - began) / self._client.concurrency.limit
        response = response_of(output, share, meter.latency_s)
        self._usage.timings.generated(meter.latency_s, response.n_tokens)
        return place, self._counted(response)

    def _output(self, reply: Mapping[str, Any]) -> Any:
        return self._adapter.to_output(reply["text"], reply["status"], self._info)

    def _counted(self, response: Response) -> Response:
        self._usage.count(
            {
                "usage": {
                    "prompt_tokens": response.n_prompt_tokens,
                    "completion_tokens": response.n_tokens,
                }
            }
        )
        return response


async def _made(
    connection: Connection, adapter: Adapter, usage: Usage, backoff: Backoff
) -> tuple[_Sender, RetryingClient]:
    """Client and retry layer, created in their event loop."""
    sender = _Sender(connection, adapter.takes_faults)
    return sender, RetryingClient(sender, connection, usage, backoff)
