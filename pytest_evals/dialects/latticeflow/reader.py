"""LatticeFlow's YAML: ``!include``, ``$ref``, the environment, and nothing twice.

Values are those of YAML 1.1. Every value keeps the file and line that it was written
in, also when that is a file which another one refers to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pytest_evals.data.user_files import read_text
from pytest_evals.dialects.yaml_reader.yaml_file import (
    MOST_INCLUDED,
    Step,
    YamlFile,
    YamlParser,
    bytes_of,
)
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean
from pytest_evals.masking.names import is_secret_name
from pytest_evals.masking.registry import learn_secret

_VARIABLE = re.compile(r"\$(?:(?P<name>\w+)|\{(?P<braced>\w+)\})")
_QUOTED_INCLUDE = re.compile(r"!include\s+\S")
TODO = "((TODO))"
REF = "$ref"


def read_entity_file(path: Path, base: Path | None = None) -> YamlFile:
    """The mapping in a file, with everything that it includes and refers to.

    Args:
        path: The file.
        base: Folder whose ``.env`` says what the environment does not.

    Raises:
        TaskFileError: With all problems of the file.
    """
    path = path.absolute()
    reader = _Reader(path, (), Environment(base))
    file = reader.read(bytes_of(path))
    if reader.problems:
        raise TaskFileError(reader.problems)
    return file


MOST_REFERRED = 1_000
"""Files that one file may refer to, each as often as it is read."""


class Environment:
    """Variables of the process, and those of a file ``.env`` behind them."""

    def __init__(self, base: Path | None) -> None:
        """Read nothing yet; ``base`` is the folder with the file."""
        self.n_files = 0
        """Files that were read because another one refers to them."""
        self._base = base
        self._file: dict[str, str] | None = None

    def get(self, name: str) -> str | None:
        """The value of a variable, ``None`` if there is none."""
        if name in os.environ:
            return os.environ[name]
        if self._file is None:
            self._file = dict(_dotenv(self._base)) if self._base is not None else {}
        return self._file.get(name)


def _dotenv(base: Path) -> Mapping[str, str]:
    """``NAME=value`` lines; ``export`` in front and quotes around are left out.

    Raises:
        TaskFileError: The file cannot be read.
    """
    path = base / ".env"
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}  # a virtual environment may be called .env
    except UnicodeDecodeError:
        raise TaskFileError([Problem("the file is not UTF-8", Place(path))]) from None
    except OSError as error:
        why = f"the file cannot be read: {error.strerror}"
        raise TaskFileError([Problem(why, Place(path))]) from None
    found = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip().isidentifier():
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            bare = value[1:-1] if quoted else value.partition(" #")[0].rstrip()
            found[name.strip()] = bare
    return found


class _Reader(YamlParser):
    """One file of entities. ``chain`` is the files that have led here."""

    _tags = ("!include",)

    def __init__(
        self, path: Path, chain: tuple[Path, ...], environment: Environment
    ) -> None:
        super().__init__(path)
        self._chain = (*chain, path.resolve())
        self._environment = environment
        self.problems: list[Problem] = []

    def document(self, raw: bytes) -> YamlFile:
        """Any document; its value stands under an empty way."""
        value = self._root(raw)
        return YamlFile(
            path=self._path,
            values={"": value},
            lines=self._lines,
            texts=self._texts,
            warnings=tuple(self._warnings),
        )

    def _given_twice(self, key: Any, here: Place) -> None:
        fix = "leave one of them out"
        self.problems.append(Problem(f"{key!r} is given twice", here, fix))

    def _mapping(self, node: Any, steps: tuple[Step, ...]) -> Any:
        values = super()._mapping(node, steps)
        if REF not in values:
            return values
        target = values.pop(REF)
        place = self._lines.pop((*steps, REF))
        other = self._referred(target, place)
        if other is None:
            return values
        found = other.values[""]
        if values and not isinstance(found, dict):
            kind = type(found).__name__
            what = f"{REF}: beside other keys it must give keys and values, not {kind}"
            raise TaskFileError([Problem(what, place, f"let {REF} stand alone")])
        for way in [way for way in self._lines if way[: len(steps)] == steps]:
            own = way[len(steps) :]
            if own and isinstance(found, dict) and own[0] in found:
                del self._lines[way]
                self._texts.pop(way, None)
        self._lines.update({(*steps, *way): at for way, at in other.lines.items()})
        self._texts.update({(*steps, *way): at for way, at in other.texts.items()})
        self._warnings += other.warnings
        return {**values, **found} if values else found

    def _referred(self, target: Any, place: Place) -> YamlFile | None:
        """The file that is referred to; without it a problem is noted."""
        fix = f'{REF}: "./dataset.yaml"'
        if not isinstance(target, str) or not target or "#" in target:
            what = f"{REF} is followed by the path of a file, not {target!r}"
            self.problems.append(Problem(what, place, fix))
            return None
        if "://" in target:
            what = f"{REF}: {target!r} is no file of this machine"
            self.problems.append(Problem(what, place, fix))
            return None
        path = self._path.parent / os.path.expanduser(target)
        if not self._is_there(path, target, REF, place):
            return None
        if path.resolve() in self._chain:
            names = " refers to ".join(p.name for p in (*self._chain, path))
            self.problems.append(Problem(f"a circle: {names}", place))
            return None
        self._environment.n_files += 1
        if self._environment.n_files > MOST_REFERRED:
            what = f"it refers to more than {MOST_REFERRED:,} files, repeats included"
            raise TaskFileError([Problem(what, place)])
        if len(self._chain) > MOST_INCLUDED:
            what = f"more than {MOST_INCLUDED} files refer to one another in a chain"
            raise TaskFileError([Problem(what, place)])
        reader = _Reader(path, self._chain, self._environment)
        file = reader.document(bytes_of(path))
        self.problems += reader.problems
        return file

    def _is_there(self, path: Path, target: str, what: str, place: Place) -> bool:
        """Whether there is a file; if there is none, that is noted."""
        if os.path.isfile(path):
            return True
        folder = path.parent
        known = [p.name for p in folder.glob("*")] if os.path.isdir(folder) else []
        hint = did_you_mean(path.name, known)
        text = f"{what}: there is no file {target!r}{hint}"
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
                f"{place}: {value!r} is quoted, and so a text; leave the quotes out to "
                "include the file"
            )
        self._refuse_todo(value, steps, place)
        is_name = value.startswith("$") and not re.search(r"\s", value)
        if is_name and isinstance(steps[-1], str):
            return self._expanded(value, place)
        return value

    def _refuse_todo(self, value: str, steps: tuple[Step, ...], place: Place) -> None:
        if TODO in value:
            what = f"{_dotted(steps)} still says {TODO}"
            self.problems.append(Problem(what, place, "write what belongs there"))

    def _expanded(self, value: str, place: Place) -> str:
        def one(match: re.Match[str]) -> str:
            name = match["name"] or match["braced"]
            found = self._environment.get(name)
            if found is None:
                text = f"{place}: the environment has no {name}; {value!r} stays as is"
                self._warnings.append(text)
            elif is_secret_name(name):
                learn_secret(found)
            return match[0] if found is None else found

        return _VARIABLE.sub(one, value)

    def _tagged(self, node: yaml.Node, steps: tuple[Step, ...]) -> Any:
        place = self._place(node)
        if node.tag not in self._tags:
            hint = did_you_mean(node.tag, self._tags)
            what = f"no YAML tag called {node.tag!r}{hint}"
            self.problems.append(Problem(what, place))
            return None
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            what = "!include is followed by the path of a file"
            self.problems.append(Problem(what, place, "!include scorer.py"))
            return None
        path = self._path.parent / os.path.expanduser(node.value.strip())
        if not self._is_there(path, node.value.strip(), "!include", place):
            return None
        try:
            text = read_text(path).replace("\r\n", "\n")
        except TaskFileError as error:
            for one in error.problems:
                what = f"!include: {one.where}: {one.what}"
                self.problems.append(Problem(what, place, one.fix))
            return None
        blank = text[: len(text) - len(text.lstrip())].count("\n")
        self._texts[steps] = Place(path, blank + 1)
        self._refuse_todo(text, steps, place)
        return text.strip()

    def _place(self, node: yaml.Node) -> Place:
        return Place(self._path, int(node.start_mark.line) + 1)


def _dotted(steps: tuple[Step, ...]) -> str:
    """``definition.scorers[0].type``."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")
