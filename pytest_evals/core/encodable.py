"""Text that UTF-8 cannot encode: lone surrogates."""

from __future__ import annotations

from collections.abc import Mapping


def encoding_fault(value: object) -> str:
    """Describe the first character of a text that UTF-8 cannot encode.

    Args:
        value: Text, or lists and mappings that contain text.

    Returns:
        The character and its position, but not the text, which may be a secret. Empty
        if all text can be encoded.
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
