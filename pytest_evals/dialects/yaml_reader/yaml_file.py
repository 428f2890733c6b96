"""Reads YAML with the line of every value.

Values are those of ``yaml.safe_load`` (YAML 1.1), with one additional tag,
``!function``. The last value of a duplicate key is used, with a warning. A duplicate
``gates`` key is an error, because gates would be lost.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from pytest_evals.data.user_files import check_encoding
from pytest_evals.data.yaml_loader import DEEPEST, BoundedLoader
from pytest_evals.errors import Place, Problem, TaskFileError, unknown_name
from pytest_evals.masking.values import learn

Step = str | int  # a key or a position in the path of a nested value
_PLAIN_MAPPING = "tag:yaml.org,2002:map"
_PLAIN_SEQUENCE = "tag:yaml.org,2002:seq"
_STRING = "tag:yaml.org,2002:str"
GATES = "gates"
METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A reference to a function; nothing is imported yet. ``place``: place of the tag;
    the folder of its file is searched first. ``dotted``: ``module.name`` or
    ``package.module.name``."""

    place: Place
    dotted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRules:
    """Rules for running Python code of a file. ``seconds``: time limit of one call; 0
    for none. ``may_run``: returns whether Python code of a file may run."""

    seconds: float = 30.0
    may_run: Callable[[Path], bool] = lambda _path: True


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile:
    """A mapping with the places of its values."""

    path: Path
    values: dict[Any, Any]
    lines: Mapping[tuple[Step, ...], Place] = field(default_factory=dict)
    """Path of a value → place of its key or list entry. Included values have places in
    other files."""
    texts: Mapping[tuple[Step, ...], Place] = field(default_factory=dict)
    """Path of a string → place of its first line, if different."""
    unquoted: Mapping[int, tuple[Any, Mapping[Any, str]]] = field(default_factory=dict)
    """For each mapping and list by its identity: the value itself, and its unquoted
    scalars that are not strings, as they are written."""
    warnings: tuple[str, ...] = ()
    code: CodeRules = CodeRules()  # rules for running its Python code

    def place(self, *steps: Step) -> Place:
        """Return the place of a value, or of the innermost known value around it."""
        for end in range(len(steps), 0, -1):
            if steps[:end] in self.lines:
                return self.lines[steps[:end]]
        return Place(self.path)

    def text_place(self, *steps: Step) -> Place:
        """Return the place of the first line of a string."""
        return self.texts.get(steps) or self.place(*steps)

    def inside(self, *steps: Step) -> YamlFile:
        """Return a mapping inside as a separate file, that of its first key."""
        values: Any = self.values
        for step in steps:
            values = values[step]
        n = len(steps)
        lines, texts = (
            {path[n:]: at for path, at in known.items() if path[:n] == steps}
            for known in (self.lines, self.texts)
        )
        lines.pop((), None)
        first = next(iter(lines.values()), Place(self.path))
        return YamlFile(path=first.path, values=values, lines=lines, texts=texts)

    def written(self, container: Any) -> Mapping[Any, str]:
        """Return the unquoted scalars of a mapping or list that are not strings, as
        they are written: ``4.90``, ``007``, ``yes``, or an empty value."""
        return self.unquoted.get(id(container), (None, {}))[1]


def read_yaml(path: Path) -> YamlFile:
    """Return the mapping of a file, without its includes. Raises TaskFileError if the
    file cannot be read, is not YAML, or does not contain a mapping."""
    path = path.absolute()
    raw = bytes_of(path)
    file = _read(path, raw)
    learn(file.values, raw)
    return file


def bytes_of(path: Path) -> bytes:
    """Return the bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise TaskFileError(
            [Problem(f"cannot be read: {reason}", Place(path))]
        ) from None


@lru_cache(maxsize=256)
def _read(path: Path, raw: bytes) -> YamlFile:
    """Parse a file; cached, because hundreds of tasks include the same file."""
    return YamlParser(path).read(raw)


MOST_VALUES = 1_000_000
"""Maximum number of values of a file; an alias counts with all values that it refers
to."""
_MOST_BITS = 10_000
"""Maximum bits of an integer; Python does not convert much larger ones to text."""
_FIXES = {
    "mapping values": 'quote templates and values that contain ": ", such as '
    'prompt: "Question: {{question}}"',
    "expected ':'": "put a space after the colon of a key, such as test_split: test",
    "expected '-'": "indent the keys of a list entry alike",
    "escape": "use single quotes, or write each backslash twice",
    "quoted scalar": "close the quote",
    "cannot start any token": "quote the value",
    "block scalar": "quote a value that begins with > or |",
    "single document": "write each into its own file, and remove the line ---",
    "": "check quotes, colons and indentation in this line and the one above",
}
"""Part of a parser's message → the likely fix; the first one that matches is used."""


class YamlParser:
    """Converts the nodes of one file to values and lines."""

    example = "task: my_task"  # the keys of a file, for messages

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[tuple[Step, ...], Place] = {}
        self._texts: dict[tuple[Step, ...], Place] = {}
        self._warnings: list[str] = []
        self._open: set[int] = set()
        self._n = 0
        self._sizes: dict[int, int] = {}
        self._known: dict[int, Any] = {}
        self._unquoted: dict[int, tuple[Any, Mapping[Any, str]]] = {}
        self._loader: Any = None

    def read(self, raw: bytes) -> YamlFile:
        """Return the mapping in the bytes of a file. Raises TaskFileError if they are
        not YAML, or not a mapping."""
        value = self._root(raw)
        if not isinstance(value, dict):
            kind = type(value).__name__
            fix = f"write keys and values, such as {self.example}"
            raise self._error(f"expected a mapping, not a {kind}", 1, fix)
        return YamlFile(
            path=self._path,
            values=value,
            lines=self._lines,
            texts=self._texts,
            unquoted=self._unquoted,
            warnings=tuple(self._warnings),
        )

    def _root(self, raw: bytes) -> Any:
        if not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            check_encoding(raw, self._path)
        try:
            self._loader = BoundedLoader(raw)
            node = self._loader.get_single_node()
            return {} if node is None else self._value(node, ())
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error, raw) from None
        except RecursionError:
            message = "values are nested too deeply"
            raise self._error(message, 0) from None
        except (yaml.YAMLError, ValueError) as error:
            first = str(error).splitlines()[0]
            raise self._error(f"invalid YAML: {first}", 0) from None

    def _value(self, node: yaml.Node, steps: tuple[Step, ...]) -> Any:
        if len(steps) > DEEPEST:
            message = f"values are nested more than {DEEPEST} levels deep"
            raise self._error(message, _line(node))
        if not node.tag.startswith("tag:yaml.org,2002:"):
            return self._tagged(node, steps)
        mapping = node.tag == _PLAIN_MAPPING and isinstance(node, yaml.MappingNode)
        if not mapping and node.tag != _PLAIN_SEQUENCE:
            return self._scalar(node, steps)
        if id(node) in self._open:
            raise self._error("an alias is inside its own anchor", _line(node))
        if id(node) not in self._known:
            self._open.add(id(node))
            before, self._n = self._n, self._n + len(node.value)
            inside = self._mapping if mapping else self._sequence
            self._known[id(node)] = inside(node, steps)
            self._sizes[id(node)] = self._n - before
            self._open.remove(id(node))
        else:
            self._n += self._sizes[id(node)]
        if self._n > MOST_VALUES:
            message = f"aliases expand to more than {MOST_VALUES:,} values"
            raise self._error(message, _line(node))
        return self._known[id(node)]

    def _mapping(self, node: Any, steps: tuple[Step, ...]) -> dict[Any, Any]:
        written = {id(key) for key, _ in node.value}
        self._loader.flatten_mapping(node)  # the merge key <<
        values: dict[Any, Any] = {}
        nodes: dict[Any, yaml.Node] = {}
        seen: set[Any] = set()
        for key_node, value_node in node.value:
            key: Any = self._value(key_node, ())
            if isinstance(key, list | dict):
                message = "a list or mapping cannot be a key"
                raise self._error(message, _line(key_node), _FIXES["mapping values"])
            if key in seen and id(key_node) in written:
                self._duplicate_key(key, Place(self._path, _line(key_node)))
            if id(key_node) in written:
                seen.add(key)
            place = Place(self._path, _line(key_node))
            value = self._value(value_node, (*steps, key))
            if key in values and not steps:  # the merge key has brought another value
                if key == METADATA:
                    value = with_gates_of(values[key], value)
                if has_other_gates({key: values[key]}, {key: value}, (GATES,)):
                    before = self._lines[key,]
                    message = f"{place}: {key} replaces the gates of {before}"
                    self._warnings.append(message)
            self._lines[*steps, key] = place
            values[key] = value
            nodes[key] = value_node
        self._keep_unquoted(values, nodes)
        return values

    def _sequence(self, node: Any, steps: tuple[Step, ...]) -> list[Any]:
        values = []
        for number, item in enumerate(node.value):
            self._lines[*steps, number] = Place(self._path, _line(item))
            values.append(self._value(item, (*steps, number)))
        self._keep_unquoted(values, dict(enumerate(node.value)))
        return values

    def _keep_unquoted(self, values: Any, nodes: Mapping[Any, yaml.Node]) -> None:
        texts = {key: node.value for key, node in nodes.items() if self._is_typed(node)}
        if texts:
            self._unquoted[id(values)] = (values, texts)

    def _is_typed(self, node: yaml.Node) -> bool:
        """Return whether a node is an unquoted scalar without a tag, and not a
        string."""
        if not isinstance(node, yaml.ScalarNode) or node.style or node.tag == _STRING:
            return False
        implicit = self._loader.resolve(yaml.ScalarNode, node.value, (True, False))
        return bool(node.tag == implicit)

    def _scalar(self, node: yaml.Node, steps: tuple[Step, ...]) -> Any:
        is_cell = len(steps) == 3 and steps[0] == "rows" and self._is_typed(node)
        try:
            value = self._loader.construct_object(node, deep=True)
        except (ValueError, yaml.constructor.ConstructorError) as error:
            if is_cell:  # a date such as 2020-13-01, which is text there
                return node.value
            if isinstance(error, yaml.MarkedYAMLError):
                raise
            raise self._error(f"invalid YAML: {error}", _line(node)) from None
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            if is_cell:
                return node.value
            raise self._error("an integer has too many digits", _line(node))
        return value

    def _duplicate_key(self, key: Any, here: Place) -> None:
        if key == "gates":
            fix = "list all gates under one key"
            raise self._error(f"{key!r} is a duplicate key", here.line, fix)
        text = f"{here}: {key!r} is a duplicate key; the last value is used"
        self._warnings.append(text)

    _tags: tuple[str, ...] = ("!function",)

    def _tagged(self, node: yaml.Node, steps: tuple[Step, ...]) -> Any:
        if node.tag not in self._tags:
            raise self._error(
                unknown_name("YAML tag", node.tag, self._tags), _line(node)
            )
        if not isinstance(node, yaml.ScalarNode):
            message = "!function needs module.name"
            raise self._error(message, _line(node), "!function utils.process_docs")
        return FunctionRef(Place(self._path, _line(node)), node.value.strip())

    def _syntax_error(self, error: yaml.MarkedYAMLError, raw: bytes) -> TaskFileError:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        text = ", ".join(part for part in (error.context, error.problem) if part)
        if error.context_mark is not None and error.context_mark.line + 1 < line:
            text += f" (started in line {error.context_mark.line + 1})"
        lines = raw.decode(errors="replace").splitlines()
        written = lines[line - 1] if 0 < line <= len(lines) else ""
        if "\t" in written[: len(written) - len(written.lstrip())]:
            message = "invalid YAML: the line is indented with a tab"
            return self._error(message, line, "indent with spaces")
        fix = next((fix for part, fix in _FIXES.items() if part in text), _FIXES[""])
        return self._error(f"invalid YAML: {text}", line, fix)

    def _error(self, message: str, line: int, fix: str = "") -> TaskFileError:
        return TaskFileError([Problem(message, Place(self._path, line), fix)])


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def with_gates_of(lower: Any, upper: Any) -> Any:
    """Return metadata with the gates of the metadata that it replaces, unless it has
    gates itself."""
    if not isinstance(lower, Mapping) or GATES not in lower:
        return upper
    if isinstance(upper, Mapping) and GATES in upper:
        return upper
    if not isinstance(upper, Mapping):
        upper = {} if upper is None else {"_metadata": upper}
    return {**upper, GATES: lower[GATES]}


def has_other_gates(lower: Any, upper: Any, steps: tuple[str, ...]) -> bool:
    """Whether both mappings have a value there, and the upper one lacks gates of the
    lower one."""
    for step in steps:
        if not (isinstance(lower, Mapping) and step in lower):
            return False
        if not (isinstance(upper, Mapping) and step in upper):
            return False
        lower, upper = lower[step], upper[step]
    if not isinstance(lower, list) or not isinstance(upper, list):
        return bool(lower) and lower != upper
    return any(gate not in upper for gate in lower)
