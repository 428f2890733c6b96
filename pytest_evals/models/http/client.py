"""HTTP client of all served models. Limits each exchange in time and in decompressed
size, and never sends requests to another origin."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import re
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx

from pytest_evals.data.network_variables import (
    network_fault,
    proxy_value,
    proxy_variable,
)
from pytest_evals.errors import OptionError
from pytest_evals.masking.values import masked_text
from pytest_evals.models.http.errors import (
    CERTIFICATE,
    LATE,
    PROXY,
    REDIRECTED,
    UNREACHED,
    RequestFailedError,
    seconds,
    shortened,
    status_error,
)
from pytest_evals.models.http.streaming import ARRIVALS, Arrival

_CONNECTIONS = httpx.Limits(max_connections=1000, max_keepalive_connections=100)
BASE_BYTES = 8 * 2**20
TOKEN_BYTES = 256
"""Maximum reply size per token and alternative; far more than servers need."""
EVENT_TOKENS = 4  # Factor for streams, whose events repeat the fields of a reply
MOST_BYTES = 256 * 2**20
_VARIABLES = re.compile("(http|https|all|no)_proxy|ssl_cert_(file|dir)", re.IGNORECASE)
MOST_REDIRECTS = 5
MOST_ENCODINGS = 3
PIECE_BYTES = 2**16


class HttpClient(httpx.AsyncClient):
    """HTTP client with bounded replies; any failure is a ``RequestFailedError``."""

    def __init__(self, timeout_s: float, **arguments: Any) -> None:
        """Create a client. ``timeout_s``: seconds for one exchange, redirects included.
        Raises ``OptionError`` if an environment variable for proxies or certificates is
        invalid."""
        verified = arguments.get("verify", True) is True
        fault = network_fault(reads_certificates=verified)
        if fault:
            raise OptionError(fault)
        try:
            super().__init__(timeout=timeout_s, limits=_CONNECTIONS, **arguments)
        except Exception as error:  # noqa: BLE001 - of the library's transports
            names = sorted(n for n in os.environ if _VARIABLES.fullmatch(n))
            raise OptionError(
                f"cannot create the HTTP client: {shortened(masked_text(str(error)))}\n"
                f"  fix: check {', '.join(names) or 'the installation of httpx'}"
            ) from None
        self._timeout_s = timeout_s
        self._proxy = ProxyTest()
        # Decompressed here, in pieces: the library's decoders know no limit, and a
        # chunk that was compressed twice grows a million times.
        self.headers["accept-encoding"] = "gzip, deflate"

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request and read the whole reply; ``RequestFailedError`` if there is
        no reply, or it is too large, or from another origin."""
        try:
            # The library's own limit starts anew with each byte of a slow server.
            async with (
                asyncio.timeout(self._timeout_s) as limit,
                self._proxy.ending(str(request.url), limit),
            ):
                reply = await self._exchange(request, options)
                self._proxy.has_replied = True
                return reply
        except (TimeoutError, httpx.TimeoutException):
            raise self._proxy.fault or self._late(str(request.url)) from None
        except httpx.HTTPError as error:
            raise lost(error, str(request.url)) from None

    def _late(self, url: str) -> RequestFailedError:
        variable = "" if self._proxy.has_replied else proxy_variable(url)
        through = f" through the proxy in {variable}" if variable else ""
        message = f"no reply{through} within {self._timeout_s:g} s"
        return RequestFailedError(message, LATE, retryable=True, slower=True)

    async def _exchange(self, request: Any, options: dict[str, Any]) -> Any:
        options["follow_redirects"] = False
        sent = time.perf_counter()
        most = reply_limit(request.content)
        for _ in range(MOST_REDIRECTS + 1):
            reply = await super().send(request, stream=True, **options)
            try:
                if reply.next_request is None:
                    return await _whole(reply, most, sent)
                _check_redirect(reply)
            finally:
                await reply.aclose()
            request = reply.next_request
        message = f"the server redirects more than {MOST_REDIRECTS} times"
        raise RequestFailedError(message, REDIRECTED, retryable=True)


def reply_limit(content: bytes) -> int:
    """Maximum size of a reply in bytes, decompressed: a constant plus an allowance for
    each requested token."""
    try:
        asked = json.loads(content)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        return BASE_BYTES
    written = max(_whole_of(asked, "max_tokens", "max_completion_tokens"), 0)
    n_tokens = written * max(1, _whole_of(asked, "n"))
    scores_prompt = asked.get("echo") or asked.get("return_logprob")
    if scores_prompt or asked.get("prompt_logprobs") is not None:
        n_tokens += len(content)  # a token has a byte at least
    top = _whole_of(asked, "logprobs", "top_logprobs", "prompt_logprobs")
    per_token = TOKEN_BYTES * (EVENT_TOKENS if asked.get("stream") else 1)
    return min(MOST_BYTES, BASE_BYTES + per_token * n_tokens * (1 + max(0, top)))


def lost(error: BaseException, url: str = "") -> RequestFailedError:
    """The error of a failed connection to an address, with its root cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    words = shortened(str(error)) if str(error) else type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        message = f"the server's certificate is not trusted: {words}"
        return RequestFailedError(message, CERTIFICATE, hopeless=True)
    proxy = proxy_variable(url)
    if proxy:
        message = f"the connection through the proxy in {proxy} failed: {words}"
        return RequestFailedError(message, PROXY, retryable=True)
    return RequestFailedError(
        f"the connection failed: {words}", UNREACHED, retryable=True
    )


def wait_of(reply: Any) -> float:
    """Seconds to wait according to the headers of a reply."""
    return seconds(reply.headers, time.time())


def _whole_of(asked: dict[str, Any], *names: str) -> int:
    values = [asked.get(name) for name in names]
    return max((value for value in values if isinstance(value, int)), default=0)


def _check_redirect(reply: Any) -> None:
    """Allow a redirect only if it repeats the request at the same origin."""
    old, new = reply.request, reply.next_request
    if _origin(old.url) != _origin(new.url):
        message = (
            f"the server redirects to another origin, {_origin(new.url)}: prompts and "
            "keys are not sent there"
        )
    elif old.method != new.method:
        message = (
            f"the server redirects with status {reply.status_code}, which drops the "
            f"prompt, to {shortened(new.url.path)}"
        )
    else:
        return
    raise RequestFailedError(message, REDIRECTED, hopeless=True)


def _origin(url: Any) -> str:
    """Scheme, host and port; the library leaves out a scheme's own port."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    port = "" if url.port is None else f":{url.port}"
    return f"{url.scheme}://{host}{port}"


async def _whole(reply: Any, most: int, sent: float) -> Any:
    """The reply with its complete, decompressed body."""
    try:
        stages = _stages(reply, most)
        body, n_read = bytearray(), 0
        arrivals: list[Arrival] = []
        async for data in reply.aiter_raw():
            n_read += len(data)  # compressed data may be without end, and mean nothing
            for piece in _through(stages, data):
                body += piece
            arrivals.append(Arrival(len(body), time.perf_counter() - sent))
            _check_size(max(n_read, len(body)), most)
    except _BodyError as error:
        if reply.status_code < 400:
            raise RequestFailedError(
                f"the reply {error}", retryable=error.retryable
            ) from None
        message = f"a body that {error}"
        raise status_error(reply.status_code, message, wait_of(reply)) from None
    content = bytes(body.removeprefix(codecs.BOM_UTF8))
    if reply.status_code < 400:
        _check_encoding(content, reply.charset_encoding)
    gone = (b"content-encoding", b"content-length", b"transfer-encoding")
    kept = [(k, v) for k, v in reply.headers.raw if k.lower() not in gone]
    return type(reply)(
        status_code=reply.status_code,
        headers=kept,
        content=content,
        request=reply.request,
        extensions={**reply.extensions, ARRIVALS: arrivals},
    )


def _check_encoding(content: bytes, charset: str | None) -> None:
    """Check that a reply can be decoded; the library replaces what cannot."""
    try:
        content.decode(charset or "utf-8")
    except (LookupError, UnicodeDecodeError) as error:
        message = f"the reply is not {charset or 'UTF-8'}: {shortened(str(error))}"
        raise RequestFailedError(message, retryable=True) from None


class _BodyError(Exception):
    """Why a body cannot be used; follows "the reply" in messages."""

    retryable = False


class _TornError(_BodyError):
    retryable = True


def _check_size(n: int, most: int) -> None:
    if n > most:
        raise _BodyError(f"exceeds {most:,} bytes, the limit for this request")


class _Stage:
    """Decoder of one content encoding with bounded output."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._inner = zlib.decompressobj(zlib.MAX_WBITS | 32)
        """Reads the headers of gzip and of zlib."""
        self._n = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        piece = self._next(data)
        while piece:
            self._n += len(piece)
            _check_size(self._n, self._most)
            yield piece
            piece = self._next(self._inner.unconsumed_tail)

    def _next(self, data: bytes) -> bytes:
        if self._inner.eof:
            return b""
        try:
            return self._inner.decompress(data, PIECE_BYTES)
        except zlib.error as error:
            why = f"is not {self._name}, as its headers claim: {error}"
        if self._n or self._name != "deflate":
            raise _TornError(why)
        # Some servers send deflate without the header of zlib.
        self._inner = zlib.decompressobj(-zlib.MAX_WBITS)
        self._name = "raw deflate"
        return self._next(data)


def _stages(reply: Any, most: int) -> list[_Stage]:
    """Decoders of a reply's content encodings, the last encoding first."""
    listed = reply.headers.get("content-encoding", "").lower().split(",")
    given = (name.strip().removeprefix("x-") for name in listed)
    names = [name for name in given if name not in ("", "identity")]
    for name in names:
        if name not in ("gzip", "deflate"):
            shown = shortened(name)
            raise _BodyError(f"has the encoding {shown}, which was not requested")
    if len(names) > MOST_ENCODINGS:
        raise _BodyError(f"has {len(names)} encodings")
    return [_Stage(name, most) for name in reversed(names)]


def _through(stages: Sequence[_Stage], data: bytes) -> Iterator[bytes]:
    if not stages:
        yield data
        return
    for piece in stages[0].pieces(data):
        yield from _through(stages[1:], piece)


PROXY_S = 15.0
"""Seconds without a reply until the proxy is tested, and time limit of the test."""


class ProxyTest:
    """Ends requests of a client if the proxy replies to nothing."""

    def __init__(self) -> None:
        self.has_replied = False  # whether anything has come through the proxy
        self.fault: RequestFailedError | None = None

    @asynccontextmanager
    async def ending(self, url: str, limit: asyncio.Timeout) -> AsyncIterator[None]:
        """Test the proxy of an address if the block takes long, and end the time limit
        of the block if the proxy does not reply; ``fault`` is then the error."""
        if self.has_replied or not proxy_variable(url):
            yield
            return
        test = asyncio.ensure_future(self._test(url, limit))
        try:
            yield
        finally:
            test.cancel()

    async def _test(self, url: str, limit: asyncio.Timeout) -> None:
        await asyncio.sleep(PROXY_S)
        if not self.has_replied and await _is_silent(proxy_value(url), url):
            message = f"the proxy in {proxy_variable(url)} does not reply"
            self.fault = RequestFailedError(message, PROXY, hopeless=True)
            limit.reschedule(asyncio.get_running_loop().time())


async def _is_silent(proxy: str, url: str) -> bool:
    """Whether a proxy sends nothing back, not even a refusal. Errors of the connection
    are not silence: the request reports them."""
    parts, target = urlsplit(proxy), urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 1080)
    target_port = target.port or (443 if target.scheme == "https" else 80)
    host = f"{target.hostname}:{target_port}"
    greeting = f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    if parts.scheme.startswith("socks"):
        greeting = b"\x05\x01\x00"
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(PROXY_S):
            opening = asyncio.open_connection(parts.hostname, port, ssl=tls)
            reader, writer = await opening
            try:
                writer.write(greeting)
                await reader.read(1)
            finally:
                with suppress(OSError):
                    writer.transport.abort()
    except TimeoutError:
        return True
    except OSError:
        return False
    return False
