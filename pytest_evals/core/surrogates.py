"""Strings that UTF-8 cannot encode: unpaired surrogates."""

from __future__ import annotations

from collections.abc import Mapping


def encoding_fault(value: object) -> str:
    """Describe the first character of a string that UTF-8 cannot encode.

    Args:
        value: A string, or lists and mappings that contain strings.

    Returns:
        The character and its position, but not the string, which may be a secret. Empty
        if all strings can be encoded.
    """
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            fault = "" if one.isascii() else _fault(one)
            if fault:
                return fault
        elif isinstance(one, Mapping):
            rest += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            rest += one
    return ""


def _fault(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        char = ascii(text[error.start])
        return f"character {error.start + 1} is {char}, which UTF-8 cannot encode"
    return ""
