"""Proxies that reply to nothing, and those that only take long."""

from __future__ import annotations

import asyncio
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pytest_evals.models.http import client
from pytest_evals.models.http.client import HttpClient
from pytest_evals.models.http.errors import RequestFailedError


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(client, "PROXY_S", 0.1)
    for name in ("no_proxy", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def post(url: str, timeout_s: float = 20):
    async def send():
        async with HttpClient(timeout_s) as client:
            return await client.post(url, content=b"{}")

    return asyncio.run(send())


@pytest.fixture
def silent():
    """The address of a server that accepts connections and never replies."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        yield f"127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("url", ["http://models.test/v1", "https://models.test/v1"])
def test_a_proxy_that_never_replies_is_named_long_before_the_time_limit(
    scheme, url, silent, monkeypatch
):
    variable = f"{url.partition(':')[0].upper()}_PROXY"
    monkeypatch.setenv(variable, f"{scheme}://me:s3cret@{silent}")
    if scheme == "socks5":
        pytest.importorskip("socksio")
    start = time.monotonic()
    with pytest.raises(RequestFailedError) as caught:
        post(url)
    assert time.monotonic() - start < 10
    assert str(caught.value) == f"the proxy in {variable} does not reply"
    assert caught.value.hopeless


class Slow(BaseHTTPRequestHandler):
    """A proxy that forwards nothing to other ports, whose own replies take a second."""

    def do_CONNECT(self):
        self.send_error(403)

    def do_POST(self):
        time.sleep(1)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *words):
        pass


@pytest.mark.slow
def test_a_server_that_takes_long_behind_a_proxy_is_waited_for(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.server_port}")
        assert post("http://models.test/v1").text == "{}"
        server.shutdown()


@pytest.mark.slow
def test_a_time_limit_names_the_proxy(silent, monkeypatch):
    monkeypatch.setattr(client, "PROXY_S", 60)
    monkeypatch.setenv("HTTP_PROXY", silent)
    with pytest.raises(RequestFailedError) as caught:
        post("http://models.test/v1", timeout_s=0.2)
    assert str(caught.value) == "no reply through the proxy in HTTP_PROXY within 0.2 s"
