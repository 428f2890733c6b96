"""Values from the command line."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any


def cli_value(text: str) -> Any:
    """The value as lm-eval's command line parses it (0.4.13, ``_cli/utils.py``,
    ``handle_cli_value_string``): booleans, digits as an integer, any other number as a
    float, a Python literal, else the string.

    Infinity, NaN, integers of more than 4,300 digits and literals with an unpaired
    surrogate remain strings, because results files cannot contain them.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        if text.isdigit():
            return int(text)
        number = float(text)
    except ValueError:
        return _literal(text)
    return number if math.isfinite(number) else text


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return text if encoding_fault(value) else value


def encoding_fault(value: object) -> str:
    """Describe the first character of a string, or of the strings in lists and
    mappings, that UTF-8 cannot encode: the character and its position, but not the
    string, which may be a secret. Empty if all can be encoded."""
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
