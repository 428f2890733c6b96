"""Errors of requests: causes, and whether to retry. Replies are shortened and escaped;
secrets are masked before they get here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from pytest_evals.masking.registry import hidden
from pytest_evals.masking.values import masked_text

MOST_SHOWN = 200
LONGEST_WAIT_S = 300.0
"""Maximum accepted ``Retry-After``; a server that requests more counts as closed."""
UNUSABLE = "unusable reply"
BROKEN_OFF = "broken off"  # The server ended the answer before it was complete
UNREACHED = "no connection"
PROXY = "no connection through the proxy"
CERTIFICATE = "certificate"
LATE = "timeout"
CLOSED = "long wait"
REDIRECTED = "redirect"
NO_ANSWER = "no answer"  # A valid reply whose choice has no text
REFUSED = "refusal"  # Refused by the model or a content filter
YEAR_S = 365 * 86400.0
BUSY = frozenset({408, 409, 425, 429})
OVERLOADED = frozenset({408, 429, 503, 504, 529})
HOPELESS = frozenset({401, 402, 403, 404, 407})
"""Statuses that affect every request if the first one gets them."""

_FIXES = {
    CLOSED: "run again with the same options when the server accepts requests; stored "
    "responses are not requested again",
    UNREACHED: "start the server, check its log, or set {url} to its address",
    PROXY: "check the proxy, or list the server's host in NO_PROXY",
    CERTIFICATE: "set the environment variable SSL_CERT_FILE to the certificate of the "
    "server's authority in PEM; other variables, such as REQUESTS_CA_BUNDLE and "
    "CURL_CA_BUNDLE, are not read",
    UNUSABLE: "{api}",
    BROKEN_OFF: "check the server's log: it ended the answer itself, for example "
    "because it was stopped, overloaded or out of memory; then run again",
    REDIRECTED: "if you trust the address that it redirects to, set {url} to it",
    "401": "{key}",
    "402": "check the credit of the account",
    "403": "{key}",
    "404": "{path}",
    "407": "check the user and the password of the proxy in HTTP_PROXY or HTTPS_PROXY",
    "429": "wait, lower {rate}, or check the account's plan",
    "500": "check the server's log",
}


@dataclass(eq=False)
class RequestFailedError(Exception):
    """A request without a usable reply."""

    text: str
    kind: str = UNUSABLE  # Category for counts; the HTTP status if there is one
    _: KW_ONLY
    retryable: bool = False  # Whether a retry may succeed
    slower: bool = False  # Whether the server is overloaded
    wait_s: float = 0.0  # Seconds to wait before a retry
    hopeless: bool = False  # Whether all other requests would fail too
    source: str = field(default="", init=False)
    """The model and address of a request that was sent."""

    def __post_init__(self) -> None:
        super().__init__(self.text)

    @property
    def message(self) -> str:
        """The error of the document."""
        return f"{self.source}: {self.text}" if self.source else self.text


def fix_of(kind: str, words: Mapping[str, str]) -> str:
    """The fix for an error of that kind; empty if unknown. ``words``: the settings of
    the model: ``url`` and ``rate`` are their names; ``key``, ``api`` and ``path`` are
    the fixes of a refused key, of unusable replies and of an unknown path or model."""
    return _FIXES.get(kind, "").format_map(words)


def source_of(model: str, url: str) -> str:
    """The name and the address of a model for error messages, without credentials and
    query: a run may have several models and servers."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{model} at {masked_text(f'{parts.scheme}://{host}{parts.path}')}"


def is_transient(status: int) -> bool:
    """Whether a request may succeed if it is sent again after this HTTP status."""
    return status in BUSY or status >= 500


def status_error(status: int, text: str, wait_s: float) -> RequestFailedError:
    """The error of a reply with a status other than 200."""
    words = message_in(text)
    out_of_money = status == 429 and "insufficient_quota" in text
    retryable = is_transient(status) and not out_of_money
    closed = retryable and wait_s > LONGEST_WAIT_S
    asks = f", and asks to wait for {wait_s:,.0f} s" if closed else ""
    return RequestFailedError(
        f"the server returned {status}: {words}{asks}",
        CLOSED if closed else REFUSED if _is_filter(status, text) else str(status),
        retryable=retryable and not closed,
        slower=retryable and not closed and status in OVERLOADED,
        wait_s=0.0 if closed else wait_s,
        hopeless=status in HOPELESS or out_of_money or closed,
    )


def _is_filter(status: int, text: str) -> bool:
    """Whether a content filter refused the prompt, in OpenAI's and Azure's wording."""
    marks = ("content_filter", "content_policy_violation", "ResponsibleAIPolicy")
    return status == 400 and any(mark in text for mark in marks)


def message_in(text: str) -> str:
    """The error message in a reply, or the reply itself."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return shortened(text)
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    return shortened(found if isinstance(found, str) else json.dumps(found))


def shortened(text: str) -> str:
    """A reply on one line."""
    text = hidden(text.strip())
    more = f" … ({len(text)} characters)" if len(text) > MOST_SHOWN else ""
    return f"{text[:MOST_SHOWN]!r}{more}" if text else "nothing"


def seconds(headers: Mapping[str, str], now: float) -> float:
    """Seconds to wait by ``retry-after-ms`` or ``retry-after``, which may be a date; 0
    if there is no valid value. ``headers``: by names in lower case. ``now``: Unix time,
    for a server that sends no ``date``: its clock may be another."""
    after = headers.get("retry-after", "")
    for value, unit in ((headers.get("retry-after-ms", ""), 0.001), (after, 1.0)):
        try:
            return min(max(0.0, float(value) * unit), YEAR_S)
        except ValueError:
            continue
    then = _unix_time(after)
    if then is None:
        return 0.0
    sent = _unix_time(headers.get("date", ""))
    return min(max(0.0, then - (now if sent is None else sent)), YEAR_S)


def _unix_time(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
