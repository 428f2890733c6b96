"""Registry of known secrets, and strings without them.

All written files, errors, model answers and terminal output pass through
:func:`hidden`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

MASK = "***"
_REFERENCE = r"\$\{?\w+\}?|\{\w+\}|<<.*>>|\{\{.*\}\}|\*+|…|\.\.\."
_NOTHING = frozenset({"", "none", "null", "true", "false", "empty"})
_SHORTEST = 6
_LONG = 16
"""Minimum length from which any value is searched for."""
_USUAL = frozenset(
    {
        "dummy-key",
        "no-key",
        "no-key-required",
        "not-needed",
        "not-used",
        "sk-dummy",
        "sk-no-key-required",
        "sk-none",
        "your-api-key",
    }
)
"""Placeholder keys for servers that need none."""


class _Known:
    """The secrets of this process.

    Errors, files and terminals do not belong to a session, so all sessions share the
    registry. A session removes its own secrets when it ends (:func:`remembering`).
    """

    scopes: ClassVar[list[set[str]]] = [set()]
    forms: tuple[str, ...] = ()
    """All encodings of the secrets, the longest first."""


@contextmanager
def remembering() -> Iterator[None]:
    """Forget the secrets learned inside the block when it ends."""
    scope: set[str] = set()
    _Known.scopes.append(scope)
    try:
        yield
    finally:
        # Not the last one, where threads have scopes of their own.
        _Known.scopes[:] = [one for one in _Known.scopes if one is not scope]
        _renew()


def learn_secret(secret: str) -> None:
    """Register a secret value.

    Short values and plain words are not registered: they would match in answers.
    """
    scope = _Known.scopes[-1]
    if secret not in scope and _is_distinctive(secret):
        scope.add(secret)
        _renew()


def hidden(text: str) -> str:
    """Return a string with known secrets masked; the same object without any."""
    for form in _Known.forms:
        if form in text:
            text = text.replace(form, MASK)
    return text


def knows_any() -> bool:
    """Return whether any secret is registered."""
    return bool(_Known.forms)


def is_reference(value: str) -> bool:
    """Return whether a string only refers to a secret, or is a placeholder."""
    bare = value.strip()
    return bare.lower() in _NOTHING or re.fullmatch(_REFERENCE, bare) is not None


def _is_distinctive(secret: str) -> bool:
    """Return whether a value is unlikely to occur by chance."""
    if len(secret) < _SHORTEST or secret.lower() in _USUAL or is_reference(secret):
        return False
    if len(secret) >= _LONG:
        return True
    kinds = {_kind(sign) for sign in secret[1:]}
    return len(kinds) > 1


def _kind(sign: str) -> str:
    if sign.isdigit():
        return "digit"
    if not sign.isalpha():
        return "sign"
    return "upper" if sign.isupper() else "lower"


def _renew() -> None:
    secrets = {one for scope in [*_Known.scopes] for one in [*scope]}
    forms = {form for one in secrets for form in _forms(one)}
    _Known.forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _forms(secret: str) -> set[str]:
    """Return a secret as encoded in JSON, Python, HTML and URLs."""
    import html
    import json
    from base64 import b64encode
    from urllib.parse import quote, quote_plus

    raw = secret.encode("utf-8", "surrogatepass")
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        html.escape(secret),
        html.escape(secret, quote=False),
        quote(raw, safe=""),
        quote_plus(raw),
        b64encode(raw).decode(),
    }
