"""HTTP requests to one server: returns JSON or raises an error. Does not retry."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from pytest_evals.masking.registry import MASK, hidden
from pytest_evals.masking.values import masked, masked_text
from pytest_evals.models.http.client import HttpClient, wait_of
from pytest_evals.models.http.errors import (
    RequestFailedError,
    fix_of,
    shortened,
    source_of,
    status_error,
)
from pytest_evals.models.http.streaming import ARRIVALS, is_stream, merged
from pytest_evals.models.openai.settings import OpenAISettings

Path = Literal["chat", "completions", "embeddings", "models"]
Reply = Mapping[str, Any]  # A reply's JSON

SHORTEST = 8
"""Minimum length of secrets that are masked in replies. Servers that need no key get
one such as ``none`` or ``EMPTY``."""
_CHAT = "chat/completions"
_HEADERS = {
    "OpenAI-Organization": "OPENAI_ORG_ID",
    "OpenAI-Project": "OPENAI_PROJECT_ID",
}
"""Header → its environment variable, as for OpenAI's own client."""
_TOO_LONG = re.compile(
    r"context[_ ](length|size|window)|(model|sequence|prompt|input) length"
    r"|max_tokens must be at least 1, got|(prompt|input|request)s? .*too long"
    r"|longer than the|inputs`? (tokens|must have)|max_model_len",
    re.IGNORECASE,
)
"""Messages for requests that are too long: vLLM, SGLang, llama.cpp, TGI, OpenAI."""


class OpenAIClient:
    """A client of one server with persistent connections."""

    def __init__(self, settings: OpenAISettings, key: str) -> None:
        self._settings = settings
        self._key = key
        parts = urlsplit(settings.base_url)
        self._secrets = _secrets(key, parts)
        masked(settings.extra_body, loose=True)  # servers may repeat it
        self._base_url = urlunsplit(parts._replace(fragment=""))
        headers = {one: os.environ.get(name, "") for one, name in _HEADERS.items()}
        self._client = HttpClient(
            settings.timeout,
            headers={
                **{name: text for name, text in headers.items() if text},
                "Authorization": f"Bearer {key or 'none'}",
                "Content-Type": "application/json",
                "User-Agent": "pytest-model-evals",
            },
        )

    async def post(self, path: Path, body: Mapping[str, Any]) -> Reply:
        """The reply to one request."""
        try:
            return _parsed(await self._text(path, dict(body)))
        except RequestFailedError as caught:
            fault = caught
        except UnicodeEncodeError as error:  # half of a surrogate pair
            message = f"the prompt is not Unicode: {shortened(str(error))}"
            fault = RequestFailedError(message, kind="invalid prompt")
        raise self.safe(fault)

    def source(self, path: Path) -> str:
        """The model and the URL of a path, without secrets."""
        settings = self._settings
        return source_of(settings.target, _address(settings.base_url, path))

    def fix(self, kind: str, path: Path) -> str:
        """The fix for an error of that kind; empty if unknown."""
        settings = self._settings
        variable = settings.api_key_env
        words = {
            "url": "base_url=",
            "rate": "concurrency=",
            "key": f"set the environment variable {variable} to a key that the server "
            "accepts",
            "api": "set base_url= to an OpenAI-compatible API, such as "
            "http://localhost:8000/v1",
            "path": f"check that the server has a model {settings.target!r} and "
            f"supports {_CHAT if path == 'chat' else path} (api=chat or "
            "api=completions), and that base_url ends in /v1 if its API does",
        }
        return fix_of(kind, words)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _text(self, path: Path, body: dict[str, Any]) -> str:
        url = _address(self._base_url, path)
        if path == "models":
            reply = await self._client.get(url)
        else:
            model = {"model": self._settings.target}
            whole = {**model, **body, **self._settings.extra_body}
            # Not json=: httpx before 0.28 escapes halves of surrogate pairs.
            content = json.dumps(whole, ensure_ascii=False).encode()
            reply = await self._client.post(url, content=content)
        if reply.is_success:
            whole_text: str = reply.text
            if is_stream(whole_text):
                arrivals = reply.extensions.get(ARRIVALS, ())
                return json.dumps(merged(whole_text, arrivals))
            return whole_text
        text = self._hidden(reply.text)
        fault = status_error(reply.status_code, text, wait_of(reply))
        if reply.status_code < 500:
            fault.text += _length_advice(fault.text, self._settings)
        raise fault

    def _hidden(self, text: str) -> str:
        """Mask secrets in a reply before any of it is shortened or stored; servers may
        repeat their input."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return hidden(text)

    def safe(self, fault: RequestFailedError) -> RequestFailedError:
        """Mask the key, however short, which a server may repeat."""
        fault.text = self._hidden(fault.text)
        if self._key:
            fault.text = fault.text.replace(self._key, MASK)
        return fault


def _length_advice(message: str, settings: OpenAISettings) -> str:
    """Advice to append to an error message; empty if the error is not about the
    request's length. ``message``: the beginning of the server's error message."""
    if not _TOO_LONG.search(message):
        return ""
    problem = "; the prompt and the answer's limit exceed the server's context window"
    if settings.max_length and settings.api != "chat":
        return f"{problem}, which is not max_length={settings.max_length}"
    remedies = ["remove api=chat"] if settings.api == "chat" else []
    if settings.tokenizer:
        remedies.append("pass max_length= (the window in tokens)")
    else:
        remedies.append("pass tokenizer= (the served model's)")
    way = " and ".join(remedies)
    return f"{problem}: {way} to cut prompts as hf: does, or lower max_gen_toks"


def _address(base_url: str, path: Path) -> str:
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/')}/{_CHAT if path == 'chat' else path}{mark}{query}"


def _secrets(key: str, address: SplitResult) -> list[str]:
    """Secrets that are long enough not to match words of a completion."""
    user = (address.username or "", address.password or "")
    pair = b64encode(":".join(map(unquote, user)).encode()).decode()
    query = parse_qsl(address.query)
    in_query = [v for n, v in query if masked_text(f"?{n}={v}") != f"?{n}={v}"]
    found = [key, address.password or "", unquote(address.password or ""), pair]
    return [one for one in (*found, *in_query) if len(one) >= SHORTEST]


def _parsed(text: str) -> Reply:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # the latter: brackets without end
        raise RequestFailedError(
            f"the reply is not JSON: {shortened(text)}", retryable=True
        ) from None
    if not isinstance(found, dict):
        raise RequestFailedError(
            f"the reply is not a JSON object: {shortened(text)}", retryable=True
        )
    if found.get("error"):
        # Gateways report what went wrong behind them under status 200.
        error = found["error"]
        code = str(error.get("code") if isinstance(error, dict) else None)
        status = int(code) if re.fullmatch("[45][0-9][0-9]", code) else 500
        raise status_error(status, text, 0.0)
    return found
