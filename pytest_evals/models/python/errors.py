"""Errors of functions: whether a retry may succeed."""

from __future__ import annotations

from collections.abc import Iterator

_BUSY = frozenset({408, 409, 429})
_TRANSIENT = (
    "ConnectError",
    "ConnectionError",
    "ConnectionResetError",
    "NetworkError",
    "RateLimitError",
    "RemoteProtocolError",
    "ServerDisconnectedError",
    "Timeout",
    "TimeoutError",
    "TimeoutException",
)
"""Ends of the names of such exceptions in HTTP clients, which do not inherit from
Python's."""


def retry_reason(error: BaseException) -> str:
    """The status or the kind of an error after which a retry may succeed; empty for
    other errors."""
    for one in _causes(error):
        status = _status(one)
        if status in _BUSY or 500 <= status <= 599:
            return str(status)
        if status:
            return ""
        for kind in type(one).__mro__:
            if kind.__name__.endswith(_TRANSIENT):
                return "timeout" if "Timeout" in kind.__name__ else "no connection"
    return ""


def _status(error: BaseException) -> int:
    """The HTTP status of an error, 0 if it has none."""
    response = getattr(error, "response", None)
    for owner in (error, response):
        for name in ("status_code", "code", "status"):
            status = getattr(owner, name, None)
            if type(status) is int and 400 <= status <= 599:
                return status
    return 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and the errors that it was explicitly raised from."""
    seen: set[int] = set()
    current: object = error
    while isinstance(current, BaseException) and id(current) not in seen:
        seen.add(id(current))
        yield current
        reason = getattr(current, "reason", None)  # urllib's URLError
        current = current.__cause__ or (
            reason if isinstance(reason, BaseException) else None
        )
