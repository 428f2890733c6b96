"""Values and strings with masked secrets.

A value is secret if it is under a name such as ``api_key``: at any depth of a mapping,
of JSON, YAML or ``NAME=value`` in a string, in the user part or the query of a URL, or
in a header. Secrets found here are registered: see
:mod:`pytest_evals.masking.registry`.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from hashlib import blake2b
from operator import is_
from typing import Any, TypeVar
from urllib.parse import unquote, unquote_plus

from pytest_evals.masking.names import is_secret_name, names_number, names_variable
from pytest_evals.masking.registry import (
    MASK,
    hidden,
    is_reference,
    learn_secret,
    watch,
)

T = TypeVar("T")

_BEFORE_HOST = re.compile(
    r"""(?x) (?<=://) (?:
        ([^/?#\s"'<>]*)
        # A password that should be percent-encoded; a port is none.
        | ([^:/?#@\s"'<>]*:(?!\d+(?:[/?#,]|$))[^\s"'<>]*)
    )@"""
)
_USER = re.compile(r"(?<==)([^\s/?#@,=\"'<>]+:[^\s/?#@,\"'<>]+)@(?=[\w.-]+)")
"""A URL without its scheme."""
_IN_QUERY = re.compile(r"(?<=[?&])([\w.\-%]+)=([^&#,\s\"'<>]*)")
_SCHEME = re.compile(r"(?i)\b(Bearer\s+|Basic\s+)([\w.~+/=-]{6,})")
_NAME = re.compile(
    r"""(?x)
    (?<![\w.-])
    (?P<quote>\\?["'])? (?P<name>-{0,2}[A-Za-z_][\w.-]*) (?(quote)(?P=quote))
    \s*[:=]\s*
    """
)
_NESTED = r"[\[{][^\[\]{}]*[\]}]"
for _ in range(3):
    _NESTED = rf"[\[{{](?:[^\[\]{{}}]|{_NESTED})*[\]}}]"
_VALUE = re.compile(
    rf"""(?x)
    (?P<masked> \*+)
    | (?P<quote> \\?["']) (?P<inner> (?:(?!(?P=quote))(?:\\.|[^\\]))* ) (?P=quote)
    | (?P<nested> {_NESTED})
    # Up to a comma or the end, without brackets that close there.
    | (?P<bare> [^\s,][^,\n]*? (?=[}}\])"']{{0,8}} \s{{0,8}} (?:[,\n]|$)) )
    """
)
_PAIR = re.compile(
    r"""(?P<quote>\\?["'])(?P<name>[\w-]+)(?P=quote)\s*,\s*"""
    r"""(?P=quote)(?P<inner>(?:(?!(?P=quote))(?:\\.|[^\\]))*)(?P=quote)"""
)
"""Two strings of a list, which may be a header."""
_QUOTED = re.compile(r"""(["'])(.+?)\1""")
_ALONE = re.compile(r"""\s*["']?([\w.-]+)["']?\s*[:=]\s*(\S+)\s*""")
"""A string that consists of a name and its value."""
_STRUCTURE = re.compile(r"""\s*[\[{]\s*["'\[{](?![{%])""")
"""Start of JSON; templates start differently."""
_SUSPECT = re.compile(
    rb"(?i)auth|bearer|conn|cookie|credential|dsn|jwt|key|pass|pat|pwd|secret|sig|token"
    rb"|webhook|://"
)
_HEADERS = frozenset({"authorization", "cookie"})
"""First items of pairs whose second item is secret, as are secret names with a hyphen;
other pairs are unknown."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]{1,20}|[a-z_]{1,40}")
"""Usual names of environment variables; others may be keys."""
_OF_QUERY = frozenset({"code"})
"""Secret names in the query of a URL only, such as those of Azure's functions."""


def masked(value: T, *, loose: bool = False) -> T:
    """Return JSON-like values with masked secrets; equal to the input if there are
    none. ``value``: mappings and lists at any depth. ``loose``: as for
    :func:`is_secret_name`."""
    found: T = _masked(value, loose, _replaced)
    return found


def identity(value: T, *, loose: bool = False) -> T:
    """Mask values that identify a model or a request. Like :func:`masked`, but mappings
    and lists under a secret name remain distinguishable: they may be the schema of an
    answer with a ``password``. Strings do not, so renewing a key does not change the
    identity."""
    found: T = _masked(value, loose, _distinct)
    return found


def masked_text(text: str, *, loose: bool = True) -> str:
    """Return a model's spec, a URL or a command with masked secrets."""
    return hidden(_text(text, loose=loose))


def masked_words(words: Sequence[str]) -> list[str]:
    """The words of a command with masked secrets: the values of options and variables
    whose names are those of secrets, such as ``--api-key`` and ``HF_TOKEN=``."""
    shown: list[str] = []
    before = ""
    for word in words:
        name, equals, value = word.partition("=")
        names_value = before.startswith("-") and "=" not in before
        if equals and is_secret_name(name.lstrip("-"), loose=True):
            shown.append(f"{name}={_replaced(value)}")
        elif names_value and is_secret_name(before.lstrip("-"), loose=True):
            shown.append(_replaced(word))
        else:
            shown.append(masked_text(word))
        before = word
    return shown


def without_secrets(value: T) -> T:
    """Return a value with known secrets masked in all its strings: of dataclasses,
    tuples, lists and mappings at any depth; the same object without any."""
    found: T = _without_secrets(value)
    return found


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, tuple | list):
        items = [_without_secrets(one) for one in value]
        if all(map(is_, items, value)):
            return value
        kind = type(value)
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    if isinstance(value, dict):
        masks = {name: _without_secrets(one) for name, one in value.items()}
        return value if all(masks[n] is value[n] for n in value) else masks
    if is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in fields(value)}
        masks = {name: _without_secrets(one) for name, one in given.items()}
        new = {name: one for name, one in masks.items() if one is not given[name]}
        return replace(value, **new) if new else value
    return value


def learn(values: object, source: bytes) -> None:
    """Register the secrets in the values of a file. ``values``: as for :func:`masked`.
    ``source``: the bytes of the file: most contain nothing that could be secret."""
    if _SUSPECT.search(source):
        masked(values)


def _masked(value: Any, loose: bool, replaced: Callable[[Any], Any]) -> Any:
    if isinstance(value, str):
        return hidden(_leaf(value, replaced))
    if isinstance(value, Mapping):
        return {
            hidden(name) if isinstance(name, str) else name: replaced(inner)
            if isinstance(name, str) and _covers(name, inner, loose=loose)
            else _masked(inner, loose, replaced)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        if len(value) == 2 and _is_header(value[0]):
            items = [value[0], replaced(value[1])]
        else:
            items = [_masked(one, loose, replaced) for one in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _is_header(name: object) -> bool:
    if not isinstance(name, str):
        return False
    return name.lower() in _HEADERS or ("-" in name and is_secret_name(name))


def _covers(name: str, value: object, *, loose: bool) -> bool:
    if names_variable(name):
        return isinstance(value, str) and not _is_variable(value)
    if not is_secret_name(name, loose=loose):
        return False
    return not (isinstance(value, int | float) and names_number(name))


def _replaced(value: Any) -> Any:
    """Return the replacement of a value that is secret as a whole."""
    if isinstance(value, Mapping):
        return {name: _replaced(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(inner) for inner in value]
    if value is None or isinstance(value, bool | float):
        return value
    text = str(value)
    if is_reference(text):
        return value
    _learn(text)
    return MASK


def _distinct(value: Any) -> Any:
    """Like :func:`_replaced`, with a short hash of mappings and lists."""
    bare = _replaced(value)
    if not isinstance(value, Mapping | list | tuple):
        return bare
    text = json.dumps(value, sort_keys=True, default=repr)
    return f"{MASK}{blake2b(text.encode(), digest_size=4).hexdigest()}"


def _learn(text: str) -> None:
    """Register a secret value; of a header, without the scheme; of an address or a
    connection string, the secrets in it."""
    learn_secret(text)
    scheme = re.match(r"(?i)(?:bearer|basic|token)\s+(?=\S)", text)
    if scheme is not None:
        learn_secret(text[scheme.end() :])
    if "://" in text:
        _addresses(text)
        learn_secret(re.split(r"[/?#]", text)[-1])
    for part in text.split(";") if ";" in text else ():
        name, _, value = part.partition("=")
        if is_secret_name(name, loose=True):
            learn_secret(value.strip())


def watch_environment() -> None:
    """Register the secrets of environment variables, now and whenever one is set, until
    the end of :func:`~pytest_evals.masking.registry.remembering`."""
    watch(_learn_variable)


def _learn_variable(name: str, value: str) -> None:
    if is_secret_name(name, loose=True):
        # GOOGLE_APPLICATION_CREDENTIALS is a path.
        if not (os.sep in value and os.path.exists(os.path.expanduser(value))):
            _replaced(value)
    elif _SUSPECT.search(value.encode("utf-8", "replace")):
        _leaf(value, _replaced)


def _leaf(text: str, replaced: Callable[[Any], Any]) -> str:
    """Return a string inside a mapping with masked secrets. It may be a prompt, so only
    unambiguous patterns are masked."""
    if ":" not in text and "=" not in text and " " not in text:
        return text
    text = _addresses(text)
    alone = _ALONE.fullmatch(text)
    if alone and is_secret_name(alone[1]) and not is_reference(alone[2]):
        learn_secret(alone[2].strip("\"'"))
        return text[: alone.start(2)] + MASK
    if not _STRUCTURE.match(text):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return _text(text, loose=False)
    bare = _masked(found, False, replaced)
    return text if bare == found else json.dumps(bare, ensure_ascii=False)


def _text(text: str, *, loose: bool) -> str:
    text = _PAIR.sub(_paired, _addresses(text))
    parts, start = [], 0
    while (match := _NAME.search(text, start)) is not None:
        parts.append(text[start : match.end()])
        start = match.end()
        name = match["name"].lstrip("-")
        is_variable = names_variable(name)
        if is_variable or is_secret_name(name, loose=loose):
            value = _VALUE.match(text, start)
            if value is not None and not (is_variable and _is_variable(_bare(value))):
                parts.append(_secret(value, match))
                start = value.end()
    return "".join([*parts, text[start:]])


def _is_variable(name: str) -> bool:
    return name in os.environ or _VARIABLE.fullmatch(name) is not None


def _bare(value: re.Match[str]) -> str:
    return str(value["inner"] if value["quote"] else value[0]).strip()


def _secret(value: re.Match[str], name: re.Match[str]) -> str:
    """Return the replacement of a value whose name is secret."""
    quote, nested = value["quote"] or "", value["nested"]
    bare = _bare(value)
    is_number = not quote and bare.isdigit() and names_number(name["name"])
    if is_reference(bare) or is_number:
        return value[0]
    for one in _QUOTED.finditer(nested or ""):
        _learn(one[2])
    if not nested:
        _learn(bare)
    return MASK if name[0].endswith("=") else f"{quote}{MASK}{quote}"


def _addresses(text: str) -> str:
    """Return a string with masked secrets in URLs and after the scheme of a header."""
    if "@" in text:
        text = _USER.sub(_user, text)
    if "://" in text:
        text = _BEFORE_HOST.sub(_user, text)
        text = _IN_QUERY.sub(_queried, text)
    return _SCHEME.sub(_after_scheme, text) if _SCHEME.search(text) else text


def _user(match: re.Match[str]) -> str:
    user = match[1] or match[2] or ""
    if user not in (MASK, ""):
        name, colon, password = user.partition(":")
        for secret in (password, unquote(password)) if colon else (name,):
            learn_secret(secret)
        if colon:
            learn_secret(b64encode(unquote(user).encode()).decode())  # as Basic has it
    return f"{MASK}@" if user else match[0]


def _queried(match: re.Match[str]) -> str:
    name, value = match[1], match[2]
    is_secret = unquote(name).lower() in _OF_QUERY or is_secret_name(
        unquote(name), loose=True
    )
    if not is_secret or is_reference(value):
        return match[0]
    learn_secret(value)
    learn_secret(unquote_plus(value))
    return f"{name}={MASK}"


def _paired(match: re.Match[str]) -> str:
    inner = match["inner"]
    if not _is_header(match["name"]) or is_reference(inner):
        return match[0]
    _learn(inner)
    quote = match["quote"]
    start = match[0][: match.start("inner") - match.start() - len(quote)]
    return f"{start}{quote}{MASK}{quote}"


def _is_word(text: str) -> bool:
    """Return whether a string is text such as "mathematics" or "JavaScript" rather than
    letters of base64, of which half are capitals."""
    n_capitals = sum(map(str.isupper, text))
    return text.isalpha() and (len(text) < 16 or not 0.25 < n_capitals / len(text) < 1)


def _after_scheme(match: re.Match[str]) -> str:
    if _is_word(match[2]):
        return match[0]
    learn_secret(match[2])
    return f"{match[1]}{MASK}"
