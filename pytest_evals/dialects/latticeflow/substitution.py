"""``<< config.x >>`` and ``<< secrets.X >>``: values put into texts.

That is done once, before templates and Python are compiled: a value that is the whole
text keeps its type, any other is written as Python writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pytest_evals.dialects.yaml_reader.yaml_file import Step, YamlFile
from pytest_evals.errors import Problem, did_you_mean

_HOLE = re.compile(r"<<\s*(?P<root>config|secrets)\.(?P<name>[A-Za-z0-9_\-]+)\s*>>")
_INDEXED = re.compile(
    r"(?P<head>\bsamples?\s*(?:\.\s*|\[\s*(?P<quote>[\"'])))"
    r"<<\s*config\.(?P<name>[A-Za-z0-9_\-]+)\s*>>"
)
"""A hole that picks one of several aligned datasets: ``sample["<< config.a >>"]``."""


class Values:
    """What the holes stand for.

    Args:
        config: Parameter → value.
        secret: Gives a secret by its name, ``None`` for one that nobody knows; without
            it no secret may be named.
        aligned: Parameters that name aligned datasets: where such a hole picks one of
            them from a sample, it stands for its own name.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        secret: Callable[[str], str | None] | None = None,
        aligned: Collection[str] = (),
    ) -> None:
        """Nothing is put in yet."""
        self.config, self._secret = config, secret
        self._aligned = frozenset(aligned)

    def put_into(self, text: str) -> Any:
        """The text with its holes filled; the bare value if it is nothing but a hole.

        Raises:
            ValueError: A name means nothing; the text says so.
        """
        if "<<" not in text:
            return text
        if self._aligned:
            text = _INDEXED.sub(self._own_name, text)
        whole = _HOLE.fullmatch(text.strip())
        if whole is not None:
            return self._value(whole["root"], whole["name"])
        return _HOLE.sub(lambda m: _written(self._value(m["root"], m["name"])), text)

    def _own_name(self, match: re.Match[str]) -> str:
        if match["name"] in self._aligned:
            return match["head"] + match["name"]
        return match[0]

    def _value(self, root: str, name: str) -> Any:
        if root == "secrets":
            found = self._secret(name) if self._secret is not None else None
            if found is None:
                raise ValueError(_no_secret(name, allowed=self._secret is not None))
            return found
        if name not in self.config:
            hint = did_you_mean(name, list(self.config))
            listed = f"; there are: {', '.join(self.config) or 'none'}"
            what = f"<< config.{name} >>: no parameter called {name!r}"
            raise ValueError(what + (hint or listed))
        return self.config[name]


def substituted(
    file: YamlFile, steps: tuple[Step, ...], values: Values, problems: list[Problem]
) -> YamlFile:
    """A file with the holes of one of its values filled.

    Args:
        file: Left as it is.
        steps: The way to the value; nothing at all is done if there is none.
        values: What the holes stand for.
        problems: Holes that stand for nothing are added here.
    """

    def filled(value: Any, way: tuple[Step, ...]) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner, (*way, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner, (*way, n)) for n, inner in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return values.put_into(value)
        except ValueError as error:
            problems.append(Problem(str(error), file.place(*way)))
            return value

    def replaced(value: Any, rest: tuple[Step, ...]) -> Any:
        if not rest:
            return filled(value, steps)
        if not isinstance(value, dict) or rest[0] not in value:
            return value
        return {**value, rest[0]: replaced(value[rest[0]], rest[1:])}

    return replace(file, values=replaced(file.values, steps))


def names_in(text: Any) -> str | None:
    """The parameter that a text is nothing but a hole for; ``None`` for any other."""
    if not isinstance(text, str):
        return None
    match = _HOLE.fullmatch(text.strip())
    return match["name"] if match is not None and match["root"] == "config" else None


def _written(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _no_secret(name: str, *, allowed: bool) -> str:
    if not allowed:
        return (
            f"<< secrets.{name} >>: secrets may stand in models, adapters and "
            "generators only"
        )
    return (
        f"<< secrets.{name} >>: there is no such secret; set the environment variable "
        f"{name}"
    )
