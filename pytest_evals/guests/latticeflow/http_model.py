"""A model at a URL: one POST per call, within its rate limit.

Retries and error classes are those of ``openai:`` models.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_evals.core.request import UNSENT, Request, Response
from pytest_evals.errors import DocumentError, SpendCapError
from pytest_evals.guests.latticeflow import models
from pytest_evals.guests.latticeflow.models import Adapter, ModelInfo
from pytest_evals.masking.values import masked, masked_text
from pytest_evals.models.http.client import HttpClient, wait_of
from pytest_evals.models.http.errors import (
    RequestFailedError,
    fix_of,
    is_transient,
    source_of,
    status_error,
)
from pytest_evals.models.http.event_loop import BackgroundModel, pause
from pytest_evals.models.http.retries import Backoff, RetryingClient
from pytest_evals.models.http.spend_cap import SpendCap
from pytest_evals.models.http.usage import METER, RequestMeter, SpendLimits, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(SpendLimits):
    """Address and request settings of a model, whose spend caps apply to one run,
    retries included. Headers may hold secrets."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    concurrency: int = 8  # calls at the same time
    per_minute: float = 0.0  # calls; 0 for any number
    timeout: float = 300.0  # seconds for one reply
    max_retries: int = 8  # if the server is busy or fails
    verify: bool = True  # whether the server must have a valid certificate
    trusted_ca: str = field(default="", repr=False)  # PEM; empty for the usual ones


_FIX_WORDS = {
    "url": "url: in the model's file",
    "rate": "rate_limit: or max_concurrent_requests: in the model's file",
    "key": "check api_key: and secrets: in the model's file",
    "api": "set adapter: in the model's file to one that reads the server's replies",
    "path": "check url: and model_key: in the model's file",
}


class HttpModel(BackgroundModel):
    """A server; requests run concurrently in a background thread, over persistent
    connections. Is also the transport of its ``RetryingClient``."""

    def __init__(
        self,
        info: ModelInfo,
        adapter: Adapter,
        connection: Connection,
        fingerprint: Mapping[str, Any],
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__()
        self.name = info.name
        self.fingerprint: Mapping[str, Any] | None = fingerprint
        self._info, self._adapter, self._connection = info, adapter, connection
        self._usage = Usage(connection.price_in, connection.price_out)
        self.info: dict[str, Any] = {
            "model": info.name,
            "base_url": masked_text(connection.url),
            "usage": self._usage.shown,
        }
        masked(dict(connection.headers), loose=True)
        self._secrets = [v for v in connection.headers.values() if len(v) > 6]
        self._next = 0.0  # when the rate limit allows the next request
        self._http, self._client = self._background.run(
            self._clients(backoff or Backoff())
        )

    async def _clients(self, backoff: Backoff) -> tuple[HttpClient, RetryingClient]:
        """Return the client and its retry layer, created in their event loop."""
        given, name = self._connection, self.name
        verify: Any = given.verify
        if verify and given.trusted_ca:
            verify = ssl.create_default_context(cadata=given.trusted_ca)
        http = HttpClient(given.timeout, headers=dict(given.headers), verify=verify)
        cap = SpendCap(
            f"latticeflow:{name}",
            name,
            given.max_requests,
            given.max_cost,
            has_costs=bool(given.price_in or given.price_out),
        )
        return http, RetryingClient(self, given, self._usage, backoff, cap)

    async def post(self, path: None, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the model output in the reply, and its usage."""
        await self._slot()
        try:
            reply = await self._http.post(
                self._connection.url,
                content=body["text"],
                headers={"Content-Type": "application/json"},
            )
        except RequestFailedError as fault:
            raise self.safe(fault) from None
        return self._read(reply)

    def source(self, path: None) -> str:
        """Return the model and its URL, without secrets."""
        return source_of(self.name, self._connection.url)

    def fix(self, kind: str, path: None) -> str:
        """Return the fix for an error of that kind."""
        return fix_of(kind, _FIX_WORDS)

    def _read(self, reply: Any) -> Mapping[str, Any]:
        status = reply.status_code
        is_handled = (
            self._adapter.takes_faults and status >= 400 and not is_transient(status)
        )
        if not (reply.is_success or is_handled):
            raise self.safe(status_error(status, reply.text, wait_of(reply)))
        try:
            output = self._adapter.to_output(reply.text, status, self._info)
        except DocumentError as error:
            raise self.safe(RequestFailedError(str(error))) from None
        n_in, n_out = models.tokens_of(output)
        usage = {"prompt_tokens": n_in, "completion_tokens": n_out}
        return {"output": output, "usage": usage}

    async def _slot(self) -> None:
        if not self._connection.per_minute:
            return
        now = asyncio.get_running_loop().time()
        begin = max(now, self._next)
        self._next = begin + 60 / self._connection.per_minute
        await pause(begin - now)

    def safe(self, fault: RequestFailedError) -> RequestFailedError:
        """Mask the key, which a server may repeat."""
        for secret in self._secrets:
            bare = secret.removeprefix("Bearer ")
            fault.text = fault.text.replace(secret, "***").replace(bare, "***")
        return fault

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer all requests, in the order of the replies. Raises ``ModelError`` if
        the server cannot be reached, or refuses every request."""
        order = range(len(requests))
        yield from self._answers(requests, order, self._connection.concurrency)

    def close(self) -> None:
        """Cancel running requests and close the connections."""
        self._background.close(self._http.aclose)

    async def _one(self, place: int, request: Request) -> tuple[int, Response]:
        METER.set(meter := RequestMeter())
        began = time.perf_counter()
        try:
            body, _ = models.body_of(request, self._adapter, self._info)
            most = models.token_limit(body) or getattr(request, "max_tokens", 0)
            sent = {"text": body, "max_tokens": most}
            output = await self._client.ask(None, sent, lambda reply: reply["output"])
        except RequestFailedError as fault:
            return place, Response(error=fault.message)
        except SpendCapError as error:
            return place, Response(error=str(error), finish=UNSENT)
        except DocumentError as error:
            return place, Response(error=str(error))
        share = (time.perf_counter() - began) / self._client.concurrency.limit
        response = models.response_of(output, share, meter.latency_s)
        if response.error:
            message = f"{self.source(None)}: {response.error}"
            response = replace(response, error=message)
        return place, replace(response, cost=meter.cost)
