"""Values from the command line."""

from __future__ import annotations

import ast
import math
from typing import Any

from pytest_evals.core.surrogates import encoding_fault


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
