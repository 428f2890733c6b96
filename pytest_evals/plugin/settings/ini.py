"""Values of the ini file.

pytest reads strings and lists of strings from ``pytest.ini`` and
``[tool.pytest.ini_options]``. Since 9.0 it reads TOML types from ``[tool.pytest]`` and
``pytest.toml``, and accepts the declared type only. Here a number, a boolean or a list
is equivalent to the same value as a string.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_evals.plugin.settings.option_table import Option

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_SEPARATORS = {"NAMES": ",", "GLOBS": " ", "K=V,…|JSON": ","}
"""Separators of options with several entries in one string."""


def ini_value(config: pytest.Config, option: Option) -> Any:
    """Return the ini value of an option: a string, a boolean or a list of strings, by
    its kind; ``None`` if it is not set."""
    value = _value(config, option)
    if value is None or (option.kind == "text" and isinstance(value, str)):
        return value
    if option.kind == "list":
        return _lines(value)
    if option.kind == "flag":
        text = _text(value).strip().lower()
        if text not in (*_TRUE, *_FALSE):
            raise _wrong(config, option, value, "write true or false")
        return text in _TRUE
    if isinstance(value, dict) and "JSON" in option.metavar:
        return json.dumps(value, default=str)
    if isinstance(value, list) and option.metavar in _SEPARATORS:
        return _SEPARATORS[option.metavar].join(map(_text, value))
    if isinstance(value, list | dict):
        raise _wrong(config, option, value, "write one value")
    return _text(value)


def _value(config: pytest.Config, option: Option) -> Any:
    """Return the value of the file if pytest (9.0) would refuse or deprecate its type;
    pytest keeps it in a private attribute."""
    found = getattr(config, "_inicfg", {}).get(option.dest)
    mode, value = getattr(found, "mode", ""), getattr(found, "value", None)
    if mode == "toml" or (mode and isinstance(value, list)):
        return value
    try:
        return config.getini(option.dest)
    except (ValueError, pytest.UsageError) as error:
        if option.dest in str(error):
            raise
        where = f"{option.dest} in {config.inipath}"
        raise pytest.UsageError(f"{where}: {error}; write true or false") from None


def _lines(value: object) -> list[str]:
    entries = value if isinstance(value, list) else _text(value).splitlines()
    return [text for entry in entries if (text := _text(entry).strip())]


def _text(value: object) -> str:
    """Return the value as on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong(
    config: pytest.Config, option: Option, value: object, fix: str
) -> pytest.UsageError:
    shown = f"{type(value).__name__} {value!r:.60}"
    return pytest.UsageError(f"{option.dest} in {config.inipath}: {shown}; {fix}")
