"""Registry of known secrets, and strings without them.

All written files, errors and terminal output pass through :func:`hidden`. Answers of
models do not before they are scored.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import takewhile
from operator import eq
from typing import Any, ClassVar

MASK = "***"
_REFERENCE = r"\$\{?\w+\}?|\{\w+\}|<<.*>>|\{\{.*\}\}|\*+|…|\.\.\."
_NOTHING = frozenset({"", "none", "null", "true", "false", "empty"})
_SHORTEST = 6
_LONG = 16  # minimum length from which any value is searched for
_PART = 6  # minimum length of the beginning or end of a secret next to an ellipsis
_LONGEST_LINE = 40
"""Length from which the lines of a secret, such as a private key, are secret too."""
_CUT = 12
"""Minimum length of the beginning of a secret that is cut off without an ellipsis."""
_AFTER_CUT = ("", "\n", '"', "'", "\\")  # what follows a string that was cut off
_ELLIPSES = ("…", "...")
_CLOSING = "\"'\\ )("
"""Signs between a truncated string and an ellipsis, at most ``_MOST_CLOSING``."""
_MOST_CLOSING = 4
_USUAL = frozenset(
    (
        *("dummy-key", "no-key", "no-key-required", "not-needed", "not-used"),
        *("sk-dummy", "sk-no-key-required", "sk-none", "your-api-key"),
    )
)
"""Placeholder keys for servers that need none."""

_PUTENV = os.putenv
_OF_PYTEST = ("PYTEST_CURRENT_TEST", b"PYTEST_CURRENT_TEST")
"""A variable that pytest sets three times in each test."""


class _Known:
    """The secrets of this process. Errors, files and terminals do not belong to a
    session, so all sessions share the registry. A session removes its own secrets when
    it ends (:func:`remembering`)."""

    scopes: ClassVar[list[set[str]]] = [set()]
    forms: tuple[str, ...] = ()  # all encodings of the secrets, the longest first
    starts: tuple[str, ...] = ()  # the first signs of each
    joined = ""  # all of these in one string
    watching: ClassVar[set[int]] = set()
    """The scopes that learn secrets of the environment."""


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
        _Known.watching.discard(id(scope))
        _renew()


def watch(learn: Callable[[str, str], None]) -> None:
    """Let the innermost :func:`remembering` learn the secrets of environment variables,
    now and whenever one is set, by a function of their names and values."""
    scope = id(_Known.scopes[-1])
    if scope in _Known.watching:
        return
    _Known.watching.add(scope)

    def set_variable(name: Any, value: Any, putenv: Any = _PUTENV) -> None:
        putenv(name, value)
        if _Known.watching and name not in _OF_PYTEST:
            learn(os.fsdecode(name), os.fsdecode(value))

    os.putenv = set_variable  # ``os.environ`` calls it
    for name, value in [*os.environ.items()]:
        learn(name, value)


def learn_secret(secret: str) -> None:
    """Register a secret value, and the lines of a long one. Short values and plain
    words are not registered: they would match in answers."""
    scope = _Known.scopes[-1]
    lines = [secret, secret.strip()]
    if "\n" in secret and len(secret) > _LONGEST_LINE:
        lines += [line for line in secret.split() if len(line) >= _LONG]
    new = {one for one in lines if one not in scope and _is_distinctive(one)}
    if new:
        scope |= new
        _renew()


def learned() -> frozenset[str]:
    """Return all registered secrets."""
    return frozenset(one for scope in [*_Known.scopes] for one in [*scope])


def hidden(text: str) -> str:
    """Return a string with known secrets masked; the same object without any. Parts are
    masked too: the beginning of a secret before an ellipsis or, if it is longer, before
    a quote or the end; and its end after an ellipsis."""
    if len(text) < _SHORTEST:
        return text
    if starts := [start for start in _Known.starts if start in text]:
        for form in _Known.forms:
            text = text.replace(form, MASK)
        for start in starts:
            text = _without_begins(text, start) if len(start) == _CUT else text
    if _Known.forms and ("…" in text or "..." in text):
        text = _without_parts(text)
    return text


def _without_begins(text: str, start: str) -> str:
    """Mask what is left of a secret with this start that was cut off."""
    forms = [form for form in _Known.forms if form.startswith(start)]
    parts, done = [], 0
    for found in re.finditer(re.escape(start), text):
        at = found.start()
        pairs = (zip(form, text[at : at + len(form)], strict=False) for form in forms)
        n = max(sum(1 for _ in takewhile(lambda two: eq(*two), one)) for one in pairs)
        if at >= done and text[at + n : at + n + 1] in _AFTER_CUT:
            parts += [text[done:at], MASK]
            done = at + n
    return "".join([*parts, text[done:]])


def _without_parts(text: str) -> str:
    """Mask secrets that an ellipsis truncates."""
    spans = set()
    for ellipsis_ in _ELLIPSES:
        place = text.find(ellipsis_)
        while place >= 0:
            before = text[max(0, place - _MOST_CLOSING) : place]
            end = place - len(before) + len(before.rstrip(_CLOSING))
            spans.add((end - _length_before(text, end), end))
            place += len(ellipsis_)
            spans.add((place, place + _length_after(text, place)))
            place = text.find(ellipsis_, place)
    for start, end in sorted(spans, reverse=True):
        if start < end:
            text = f"{text[:start]}{MASK}{text[end:]}"
    return text


def _length_before(text: str, end: int) -> int:
    """Return the length of the beginning of a secret that ends at a position; else
    0."""
    part = text[max(0, end - _PART) : end]
    ends = [(form, at + _PART) for form, at in _places(part)]
    return max((n for form, n in ends if text.endswith(form[:n], 0, end)), default=0)


def _length_after(text: str, start: int) -> int:
    """Return the length of the end of a secret that starts at a position; else 0."""
    tails = [form[at:] for form, at in _places(text[start : start + _PART])]
    return max((len(one) for one in tails if text.startswith(one, start)), default=0)


def _places(part: str) -> Iterator[tuple[str, int]]:
    """Yield each encoding of a secret that contains a part, and where."""
    if len(part) == _PART and part in _Known.joined:
        for form in _Known.forms:
            for found in re.finditer(re.escape(part), form):
                yield form, found.start()


def has_secrets(texts: Iterable[str]) -> bool:
    """Return whether a string contains a known secret."""
    if not _Known.forms:
        return False
    text = "\n".join(texts)
    return any(form in text for form in _Known.forms)


def knows_any() -> bool:
    """Return whether any secret is registered."""
    return bool(_Known.forms)


def is_reference(value: str) -> bool:
    """Return whether a string only refers to a secret, or is a placeholder."""
    bare = value.strip()
    return bare.lower() in _NOTHING or re.fullmatch(_REFERENCE, bare) is not None


def _is_distinctive(secret: str) -> bool:
    if len(secret) < _SHORTEST or secret.lower() in _USUAL or is_reference(secret):
        return False
    return len(secret) >= _LONG or len({*map(_kind, secret[1:])}) > 1


def _kind(sign: str) -> str:
    if sign.isdigit():
        return "digit"
    if not sign.isalpha():
        return "sign"
    return "upper" if sign.isupper() else "lower"


def _renew() -> None:
    known = None
    while known != (known := learned()):  # other threads may learn meanwhile
        forms = {form for one in known for form in _forms(one)}
        starts = {form[:_CUT] for form in forms}
        _Known.forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        _Known.starts = tuple(sorted(starts))
        _Known.joined = "\n".join(_Known.forms)


@lru_cache(maxsize=1024)
def _forms(secret: str) -> frozenset[str]:
    """Return a secret as encoded in JSON, Python, HTML, URLs, base64 and commands of
    CI logs."""
    import html
    import json
    from base64 import b64encode, urlsafe_b64encode
    from urllib.parse import quote, quote_plus

    raw = secret.encode("utf-8", "surrogatepass")
    in_json = json.dumps(secret)[1:-1]
    forms = {
        secret,
        in_json,
        json.dumps(in_json)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        html.escape(secret),
        html.escape(secret, quote=False),
        quote(raw, safe=""),
        quote(raw),
        quote_plus(raw),
        secret.replace("%", "%25"),
    }
    for encode in (b64encode, urlsafe_b64encode):
        forms.add(encode(raw).decode())
        # As part of a longer value: signs that depend on the secret only.
        for n in range(3):
            whole = encode(b"-" * n + raw).decode()
            first, last = (0, 2, 3)[n], (n + len(raw)) * 8 // 6
            forms.add(whole[first:last])
    return frozenset(forms)


@contextmanager
def masking_logs() -> Iterator[None]:
    """Mask known secrets in ``logging`` records that are created, since HTTP clients
    log complete URLs, and in warnings that are shown, inside the block. Filters would
    not be enough: each applies to one logger, and the loggers of a client change with
    its version."""
    make, show = logging.getLogRecordFactory(), warnings.showwarning

    def masked(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if knows_any():
            _mask(record)
        return record

    def shown(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        text = str(message)
        show(message if hidden(text) is text else hidden(text), *args, **kwargs)

    logging.setLogRecordFactory(masked)
    warnings.showwarning = shown
    try:
        yield
    finally:
        if warnings.showwarning is shown:
            warnings.showwarning = show
        if logging.getLogRecordFactory() is masked:
            logging.setLogRecordFactory(make)


def _mask(record: logging.LogRecord) -> None:
    with suppress(Exception):  # arguments that do not fit are reported by the handler
        text = record.getMessage()
        shown = hidden(text)
        if shown is not text:
            record.msg, record.args = shown, ()
    if record.exc_info and not record.exc_text:
        text = logging.Formatter().formatException(record.exc_info)
        shown = hidden(text)
        if shown is not text:
            record.exc_text = shown
