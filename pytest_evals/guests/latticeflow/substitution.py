"""Substitutes ``<< config.x >>`` and ``<< secrets.X >>`` in strings.

Substitution happens once, before templates and Python are compiled. A value that is the
whole string keeps its type; any other is inserted as ``repr``, strings as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pytest_evals.dialects.yaml_reader.yaml_file import Step, YamlFile
from pytest_evals.errors import Problem, unknown_name

_PLACEHOLDER = re.compile(
    r"<<\s*(?P<root>config|secrets)\.(?P<name>[A-Za-z0-9_\-]+)\s*>>"
)
_INDEXED = re.compile(
    r"(?P<head>\bsamples?\s*(?:\.\s*|\[\s*(?P<quote>[\"'])))"
    r"<<\s*config\.(?P<name>[A-Za-z0-9_\-]+)\s*>>"
)
"""A placeholder that selects one of several aligned datasets: ``sample["<< config.a
>>"]``."""


class Values:
    """Values of the placeholders. Without ``secret``, a function that returns a secret
    by name, secrets are not allowed. ``aligned``: parameters that name aligned
    datasets; a placeholder that selects one of them from a sample is replaced by the
    parameter's name."""

    def __init__(
        self,
        config: Mapping[str, Any],
        secret: Callable[[str], str | None] | None = None,
        aligned: Collection[str] = (),
    ) -> None:
        self.config, self._secret = config, secret
        self._aligned = frozenset(aligned)

    def fill(self, text: str) -> Any:
        """Return the string with its placeholders filled in; the bare value if the
        string is only a placeholder. Raises ``ValueError`` for an unknown name."""
        if "<<" not in text:
            return text
        if self._aligned:
            text = _INDEXED.sub(self._dataset_name, text)
        single = _PLACEHOLDER.fullmatch(text.strip())
        if single is not None:
            return self._value(single["root"], single["name"])
        return _PLACEHOLDER.sub(
            lambda m: _to_text(self._value(m["root"], m["name"])), text
        )

    def _dataset_name(self, match: re.Match[str]) -> str:
        if match["name"] in self._aligned:
            return match["head"] + match["name"]
        return match[0]

    def _value(self, root: str, name: str) -> Any:
        if root == "config":
            if name not in self.config:
                what = unknown_name("parameter", name, self.config)
                raise ValueError(f"<< config.{name} >>: {what}")
            return self.config[name]
        if self._secret is None:
            where = "secrets are allowed only in models, adapters and generators"
            raise ValueError(f"<< secrets.{name} >>: {where}")
        found = self._secret(name)
        if found is None:
            what = f"unknown secret; set the environment variable {name}"
            raise ValueError(f"<< secrets.{name} >>: {what}")
        return found


def substitute(
    file: YamlFile, steps: tuple[Step, ...], values: Values, problems: list[Problem]
) -> YamlFile:
    """Return a file in which the placeholders of one value are filled in. ``steps``:
    path of the value; without effect if missing."""

    def filled(value: Any, path: tuple[Step, ...]) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner, (*path, n)) for n, inner in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return values.fill(value)
        except ValueError as error:
            problems.append(Problem(str(error), file.place(*path)))
            return value

    def replaced(value: Any, rest: tuple[Step, ...]) -> Any:
        if not rest:
            return filled(value, steps)
        if not isinstance(value, dict) or rest[0] not in value:
            return value
        return {**value, rest[0]: replaced(value[rest[0]], rest[1:])}

    return replace(file, values=replaced(file.values, steps))


def parameter_of(text: Any) -> str | None:
    """Return the parameter of a string that is a placeholder only, or ``None``."""
    if not isinstance(text, str):
        return None
    match = _PLACEHOLDER.fullmatch(text.strip())
    return match["name"] if match is not None and match["root"] == "config" else None


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
