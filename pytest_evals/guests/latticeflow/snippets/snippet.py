"""Python code in a task file, or in a file that it includes.

A snippet is compiled when its file is read and executed on first use: in this process,
as a separate module, with a time limit. Errors are reported with the line of the user's
file.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Number
from types import ModuleType
from typing import Any, TypeVar

from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean
from pytest_evals.guests.latticeflow.fields import or_problems
from pytest_evals.guests.latticeflow.snippets.guard import guarded
from pytest_evals.guests.latticeflow.snippets.shims import builtins_of_snippets

T = TypeVar("T")
_numbers = itertools.count()
_LARGEST = 1 << 1024
"""Larger than every float."""


class Snippet:
    """A module in a string; executed on first use. ``seconds``: time limit of that and
    of each call of its functions; 0 for none."""

    def __init__(self, source: str, place: Place, seconds: float = 0) -> None:
        self.place, self.seconds = place, seconds
        self._module: ModuleType | None = None
        self._fault = ""
        self._lock = threading.Lock()
        padding = "\n" * (max(place.line, 1) - 1)
        try:
            self._tree = ast.parse(padding + source, str(place.path))
            self._code = compile(self._tree, str(place.path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None) or place.line
            what = f"invalid Python: {getattr(error, 'msg', None) or error}"
            raise TaskFileError([Problem(what, Place(place.path, line))]) from None

    def function(self, name: str) -> SnippetFunction:
        """Return one of its functions, without executing the module. Raises
        ``TaskFileError`` if it does not define the name."""
        known = dict(_names(self._tree.body))
        if name not in known:
            what = (
                f"the snippet does not define {name}{did_you_mean(name, sorted(known))}"
            )
            fix = f"def {name}(…):"
            raise TaskFileError([Problem(what, self.place, fix)])
        return SnippetFunction(self, name, Place(self.place.path, known[name]))

    def declared(self, name: str) -> tuple[str, ...]:
        """Return the parameters in the definition of a function."""
        for node in self._tree.body:
            match node:
                case ast.FunctionDef(args=a) | ast.AsyncFunctionDef(args=a) if (
                    node.name == name
                ):
                    every = (*a.posonlyargs, *a.args, *a.kwonlyargs)
                    return tuple(one.arg for one in every)
        return ()

    def module(self) -> ModuleType:
        """Return the module, executed once. If that failed or took too long, every call
        raises ``DocumentError``."""
        with self._lock:
            return self._run()

    def _run(self) -> ModuleType:
        if self._fault:
            raise FieldError(self._fault, self.place)
        if self._module is None:
            name = f"evals_snippet_{next(_numbers)}"
            module = ModuleType(name)
            vars(module)["__file__"] = str(self.place.path)
            vars(module)["__builtins__"] = builtins_of_snippets()
            sys.modules[name] = module  # required by dataclasses
            try:
                with guarded("the snippet", self.place, self.seconds):
                    exec(self._code, vars(module))
            except FieldError as error:
                self._fault = error.problem.what
                raise
            self._module = module
        return self._module


class SnippetFunction:
    """A function of a snippet, sync or ``async``. ``place`` is the line of its
    definition; invalid return values are reported there."""

    def __init__(self, snippet: Snippet, name: str, place: Place) -> None:
        self._snippet, self.name, self.place = snippet, name, place

    def raw(self) -> Callable[..., Any]:
        """Return the function itself, to be called inside :meth:`guarded`."""
        value: Any = vars(self._snippet.module()).get(self.name)
        if not callable(value):
            what = f"{self.name} is not a function but {value!r:.60}"
            raise FieldError(what, self.place)
        function: Callable[..., Any] = value
        return function

    def declares(self, name: str) -> bool:
        """Return whether its definition has such a parameter; nothing is executed."""
        return name in self._snippet.declared(self.name)

    def parameters(self) -> tuple[str, ...]:
        """Return the names of its parameters."""
        try:
            return tuple(inspect.signature(self.raw()).parameters)
        except (TypeError, ValueError):  # built-in functions have none
            return ()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Run the function in a block: with its time limit, and any exception becomes a
        ``DocumentError``."""
        with guarded(self.name, self.place, self._snippet.seconds):
            yield

    def __call__(self, *arguments: Any) -> Any:
        """Call the function and return its result; a coroutine is awaited."""
        return self.read(lambda result: result, *arguments)

    def read(self, reader: Callable[[Any], T], *arguments: Any) -> T:
        """Call the function and return the converted result. The conversion is guarded
        too, because methods of the result may be user code."""
        function = self.raw()
        with self.guarded():
            result = function(*arguments)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
            return reader(result)

    def invalid_return(self, what: str, fix: str = "") -> FieldError:
        """Return the error for an invalid return value; ``what`` is without the
        function's name, ``fix`` is a valid value."""
        return FieldError(f"{self.name} {what}", self.place, fix)


def snippet_of(section: Section, key: str, name: str) -> SnippetFunction | None:
    """Return the function ``name`` of the snippet under a key; errors are added to the
    problems of the section."""
    source = section.take(key, str, "")
    if not source:
        if section.values.get(key) in (None, ""):
            section.problem(key, f"{key} is missing", f"{key}: !include my_code.py")
        return None
    place, rules = section.text_place(key), section.file.code
    if not rules.may_run(place.path):
        what = f"{key}: Python files outside the suite are not executed"
        fix = f"--evals-latticeflow-allow-code {Place(place.path.parent)}"
        section.problem(key, what, fix)
        return None
    return or_problems(
        section, lambda: Snippet(source, place, rules.seconds).function(name)
    )


def _names(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Yield the names that statements bind at module level, with their lines."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name, statement.lineno
                continue  # names inside are not bound here
        for node in ast.walk(statement):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    yield node.name, node.lineno
                case ast.Name(ctx=ast.Store()):
                    yield node.id, node.lineno
                case ast.alias():
                    bound = node.asname or node.name.partition(".")[0]
                    yield bound, statement.lineno


def to_json(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """Return the value with arrays and scalars of NumPy, torch and similar libraries as
    Python values, and parts of traces as plain dicts. ``other`` converts values that
    JSON cannot represent; without it, they and circular values raise ``ValueError``."""
    try:
        return _to_json(value, other)
    except RecursionError:
        raise ValueError(
            "a value that contains itself or is nested too deeply"
        ) from None


def _to_json(value: Any, other: Callable[[Any], Any] | None) -> Any:
    if value is None or type(value) in (bool, float, str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _to_json(one, other) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(one, other) for one in value]
    if isinstance(value, str | Number):
        return _scalar(value)
    for name in ("to_dict", "tolist"):
        if callable(dump := getattr(value, name, None)):
            return _to_json(dump(), other)
    if other is None:
        raise ValueError(f"{value!r:.80} of type {type(value).__name__}")
    return other(value)


def _scalar(value: Any) -> str | float:
    """Return a subclass of string or number, or a large integer, as JSON value."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, complex):
        raise ValueError(f"{value!r:.80} of type {type(value).__name__}")
    if not isinstance(value, Integral):
        return float(value)
    number = int(value)
    if not -_LARGEST < number < _LARGEST:
        raise ValueError(f"an integer of {number.bit_length()} bits")
    return number
