"""Reads LatticeFlow's YAML: ``!include``, ``$ref``, environment variables, no duplicate
keys; and substitutes ``<< config.x >>`` and ``<< secrets.X >>`` in strings.

Values follow YAML 1.1. Every value keeps the file and line that defines it, also across
``$ref``. Placeholders are substituted once, before templates and Python are compiled. A
value that is the whole string keeps its type; any other is inserted as ``repr``,
strings as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pytest_evals.data.user_files import read_text
from pytest_evals.dialects.yaml_reader.includes import MOST_INCLUDED
from pytest_evals.dialects.yaml_reader.yaml_file import (
    Step,
    YamlFile,
    YamlParser,
    bytes_of,
)
from pytest_evals.errors import (
    Place,
    Problem,
    TaskFileError,
    similar_file,
    unknown_name,
)
from pytest_evals.masking.names import is_secret_name
from pytest_evals.masking.registry import learn_secret
from pytest_evals.masking.values import learn, masked

_VARIABLE = re.compile(r"\$(?:(?P<name>\w+)|\{(?P<braced>\w+)\})")
_QUOTED_INCLUDE = re.compile(r"!include\s+\S")
TODO = "((TODO))"
REF = "$ref"


def read_entity_file(path: Path, base: Path | None = None) -> YamlFile:
    """Return the mapping of a file, with ``!include`` and ``$ref`` resolved.
    ``base``: folder of the ``.env`` file, which supplements the environment."""
    path = path.absolute()
    reader = _Reader(path, (), Environment(base))
    file = reader.read(bytes_of(path))
    if reader.problems:
        raise TaskFileError(reader.problems)
    return file


MOST_REFERRED = 1_000
"""Maximum number of files that one file refers to, directly or indirectly, with
repeats."""

_TOO_MANY = "more than {:,} referenced files, repeats included"
_TOO_DEEP = "more than {} files refer to one another in a chain"


class Environment:
    """Environment variables, supplemented by a ``.env`` file."""

    def __init__(self, base: Path | None) -> None:
        self.n_files = 0  # files read through references
        self._base = base

    def get(self, name: str) -> str | None:
        """Return the value of a variable, or ``None``."""
        return os.environ[name] if name in os.environ else self._file.get(name)

    @cached_property
    def _file(self) -> Mapping[str, str]:
        return {} if self._base is None else _dotenv(self._base)


def _dotenv(base: Path) -> Mapping[str, str]:
    """Parse ``NAME=value`` lines; ``export`` prefixes and quotes are removed."""
    path = base / ".env"
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}  # a virtual environment can be named .env
    except UnicodeDecodeError:
        raise TaskFileError([Problem("the file is not UTF-8", Place(path))]) from None
    except OSError as error:
        why = f"the file cannot be read: {error.strerror}"
        raise TaskFileError([Problem(why, Place(path))]) from None
    values = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip().isidentifier():
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            bare = value[1:-1] if quoted else value.partition(" #")[0].rstrip()
            values[name.strip()] = bare
    masked(values)  # from here on, no output repeats a secret
    return values


class _Reader(YamlParser):
    """Reads one entity file; ``chain`` contains the files that refer to it."""

    _tags = ("!include",)

    def __init__(
        self, path: Path, chain: tuple[Path, ...], environment: Environment
    ) -> None:
        super().__init__(path)
        self._chain = (*chain, path.resolve())
        self._environment = environment
        self.problems: list[Problem] = []

    def document(self, raw: bytes) -> YamlFile:
        """Read any document; its value is stored under an empty key."""
        value = self._root(raw)
        learn({"": value}, raw)
        return YamlFile(
            path=self._path,
            values={"": value},
            lines=self._lines,
            texts=self._texts,
            warnings=tuple(self._warnings),
        )

    def _duplicate_key(self, key: Any, here: Place) -> None:
        fix = "remove one of them"
        self.problems.append(Problem(f"{key!r} is a duplicate key", here, fix))

    def _mapping(self, node: Any, steps: tuple[Step, ...]) -> Any:
        values = super()._mapping(node, steps)
        if REF not in values:
            return values
        target = values.pop(REF)
        place = self._lines.pop((*steps, REF))
        other = self._read_reference(target, place)
        if other is None:
            return values
        referred = other.values[""]
        if values and not isinstance(referred, dict):
            kind = type(referred).__name__
            message = f"{REF} next to other keys must refer to a mapping, not {kind}"
            raise TaskFileError([Problem(message, place, "remove the other keys")])
        self._replace_places(steps, referred, other)
        self._warnings += other.warnings
        return {**values, **referred} if values else referred

    def _replace_places(
        self, steps: tuple[Step, ...], referred: Any, other: YamlFile
    ) -> None:
        """Take over the places of a file that is referred to, in place of those of keys
        that its values replace."""
        n = len(steps)
        replaced = referred if isinstance(referred, dict) else ()
        for path in [*self._lines]:
            if path[:n] == steps and len(path) > n and path[n] in replaced:
                del self._lines[path]
                self._texts.pop(path, None)
        self._lines |= {(*steps, *path): at for path, at in other.lines.items()}
        self._texts |= {(*steps, *path): at for path, at in other.texts.items()}

    def _read_reference(self, target: Any, place: Place) -> YamlFile | None:
        message = ""
        if not isinstance(target, str) or not target or "#" in target:
            message = f"{REF} must be the path of a file, not {target!r}"
        elif "://" in target:
            message = f"{REF}: {target!r} is not a local file"
        if message:
            fix = f'{REF}: "./dataset.yaml"'
            self.problems.append(Problem(message, place, fix))
            return None
        path = self._path.parent / os.path.expanduser(target)
        if not self._check_exists(path, target, REF, place):
            return None
        if path.resolve() in self._chain:
            names = " refers to ".join(p.name for p in (*self._chain, path))
            self.problems.append(Problem(f"circular reference: {names}", place))
            return None
        self._environment.n_files += 1
        for n, most, message in (
            (self._environment.n_files, MOST_REFERRED, _TOO_MANY),
            (len(self._chain), MOST_INCLUDED, _TOO_DEEP),
        ):
            if n > most:
                raise TaskFileError([Problem(message.format(most), place)])
        reader = _Reader(path, self._chain, self._environment)
        file = reader.document(bytes_of(path))
        self.problems += reader.problems
        return file

    def _check_exists(self, path: Path, target: str, label: str, place: Place) -> bool:
        if os.path.isfile(path):
            return True
        text = f"{label}: file not found: {target!r}{similar_file(path)}"
        fix = f"give a path relative to {place.path.name}"
        self.problems.append(Problem(text, place, fix))
        return False

    def _scalar(self, node: yaml.Node, steps: tuple[Step, ...]) -> Any:
        value = super()._scalar(node, steps)
        if not isinstance(value, str) or not steps:
            return value
        place = self._place(node)
        in_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        if in_block:
            self._texts[steps] = Place(place.path, place.line + 1)
        if _QUOTED_INCLUDE.match(value):
            self._warnings.append(
                f"{place}: {value!r} is quoted and therefore a string; remove the "
                "quotes to include the file"
            )
        self._refuse_todo(value, steps, place)
        is_name = value.startswith("$") and not re.search(r"\s", value)
        if is_name and isinstance(steps[-1], str):
            return self._expand_variables(value, place)
        return value

    def _refuse_todo(self, value: str, steps: tuple[Step, ...], place: Place) -> None:
        if TODO in value:
            # As text: definition.scorers[0].type
            path = "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in steps)
            message = f"{path.removeprefix('.')} still contains {TODO}"
            self.problems.append(Problem(message, place, "replace it with a value"))

    def _expand_variables(self, value: str, place: Place) -> str:
        def one(match: re.Match[str]) -> str:
            name = match["name"] or match["braced"]
            referred = self._environment.get(name)
            if referred is None:
                message = f"the environment variable {name} is not set"
                self._warnings.append(
                    f"{place}: {message}; {value!r} is used unchanged"
                )
                return match[0]
            if is_secret_name(name):
                learn_secret(referred)
            return referred

        return _VARIABLE.sub(one, value)

    def _tagged(self, node: yaml.Node, steps: tuple[Step, ...]) -> Any:
        place = self._place(node)
        if node.tag not in self._tags:
            message = unknown_name("YAML tag", node.tag, self._tags)
            self.problems.append(Problem(message, place))
            return None
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            message = "!include needs the path of a file"
            self.problems.append(Problem(message, place, "!include scorer.py"))
            return None
        path = self._path.parent / os.path.expanduser(node.value.strip())
        if not self._check_exists(path, node.value.strip(), "!include", place):
            return None
        try:
            text = read_text(path).replace("\r\n", "\n")
        except TaskFileError as error:
            for one in error.problems:
                message = f"!include: {one.where}: {one.message}"
                self.problems.append(Problem(message, place, one.fix))
            return None
        blank = text[: len(text) - len(text.lstrip())].count("\n")
        self._texts[steps] = Place(path, blank + 1)
        self._refuse_todo(text, steps, place)
        return text.strip()

    def _place(self, node: yaml.Node) -> Place:
        return Place(self._path, int(node.start_mark.line) + 1)


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
        text = _INDEXED.sub(
            lambda m: m["head"] + m["name"] if m["name"] in self._aligned else m[0],
            text,
        )
        single = _PLACEHOLDER.fullmatch(text.strip())
        if single is not None:
            return self._value(single)

        def as_text(match: re.Match[str]) -> str:
            value = self._value(match)
            return value if isinstance(value, str) else repr(value)

        return _PLACEHOLDER.sub(as_text, text)

    def _value(self, match: re.Match[str]) -> Any:
        root, name = match["root"], match["name"]
        if root == "config":
            if name in self.config:
                return self.config[name]
            message = unknown_name("parameter", name, self.config)
        elif self._secret is None:
            message = "secrets are allowed only in models, adapters and generators"
        elif (found := self._secret(name)) is not None:
            return found
        else:
            message = f"unknown secret; set the environment variable {name}"
        raise ValueError(f"<< {root}.{name} >>: {message}")


def substitute(
    file: YamlFile, key: str, values: Values, problems: list[Problem]
) -> YamlFile:
    """Return a file in which the placeholders under one key, or with an empty key all,
    are filled in."""

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

    given = {name: value for name, value in file.values.items() if key in ("", name)}
    return replace(file, values={**file.values, **filled(given, ())})


def parameter_of(text: Any) -> str | None:
    """Return the parameter of a string that is a placeholder only, or ``None``."""
    if not isinstance(text, str):
        return None
    match = _PLACEHOLDER.fullmatch(text.strip())
    return match["name"] if match is not None and match["root"] == "config" else None
