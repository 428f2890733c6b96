"""Proxies that accept connections and never reply: they would hold each request for its
whole time limit, and each retry too."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from pytest_evals.data.network_variables import proxy_value, proxy_variable
from pytest_evals.models.http.errors import PROXY, RequestFailedError

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
            what = f"the proxy in {proxy_variable(url)} does not reply"
            self.fault = RequestFailedError(what, PROXY, hopeless=True)
            limit.reschedule(asyncio.get_running_loop().time())


async def _is_silent(proxy: str, url: str) -> bool:
    """Whether a proxy sends nothing back, not even a refusal. Errors of the connection
    are not silence: the request reports them."""
    parts, target = urlsplit(proxy), urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 1080)
    host = (
        f"{target.hostname}:{target.port or (443 if target.scheme == 'https' else 80)}"
    )
    greeting = f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    if parts.scheme.startswith("socks"):
        greeting = b"\x05\x01\x00"
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(PROXY_S):
            reader, writer = await asyncio.open_connection(
                parts.hostname, port, ssl=tls
            )
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
