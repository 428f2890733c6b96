"""Python that stands in a task file, or in a file that it includes.

A snippet is compiled when its file is read and run when it is first called: in this
process, as a module of its own, and with a time limit. Whatever goes wrong is an error
with the line of the file that the user wrote.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

from pytest_evals.data.calls import FieldError
from pytest_evals.dialects.latticeflow.snippets.guard import guarded
from pytest_evals.dialects.latticeflow.snippets.shims import builtins_of_snippets
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean

T = TypeVar("T")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_numbers = itertools.count()


class Snippet:
    """A module in a text; nothing of it has run yet."""

    def __init__(self, source: str, place: Place, seconds: float = 0) -> None:
        """Compile it.

        Args:
            source: The Python text.
            place: File and line at which the text begins.
            seconds: That running it, and each call of its functions, may take; 0 for
                ever.

        Raises:
            TaskFileError: It is no Python.
        """
        self.place, self.seconds = place, seconds
        self._module: ModuleType | None = None
        self._fault = ""
        self._lock = threading.Lock()
        ahead = "\n" * (max(place.line, 1) - 1)
        try:
            self._tree = ast.parse(ahead + source, str(place.path))
            self._code = compile(self._tree, str(place.path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None) or place.line
            what = f"this is no Python: {getattr(error, 'msg', None) or error}"
            raise TaskFileError([Problem(what, Place(place.path, line))]) from None

    def function(self, name: str) -> SnippetFunction:
        """A function of it; the module is not run yet.

        Raises:
            TaskFileError: Nothing in it has that name.
        """
        known = dict(_names(self._tree.body))
        if name not in known:
            what = f"the snippet defines no {name}{did_you_mean(name, sorted(known))}"
            fix = f"def {name}(…):"
            raise TaskFileError([Problem(what, self.place, fix)])
        return SnippetFunction(self, name, Place(self.place.path, known[name]))

    def declared(self, name: str) -> tuple[str, ...]:
        """Parameters in the definition of a function."""
        for node in self._tree.body:
            match node:
                case ast.FunctionDef(args=a) | ast.AsyncFunctionDef(args=a) if (
                    node.name == name
                ):
                    every = (*a.posonlyargs, *a.args, *a.kwonlyargs)
                    return tuple(one.arg for one in every)
        return ()

    def module(self) -> ModuleType:
        """The module, run once.

        Raises:
            DocumentError: It raised something, or took too long; and each time again.
        """
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
            sys.modules[name] = module  # dataclasses look for their module there
            try:
                with guarded("the snippet", self.place, self.seconds):
                    exec(self._code, vars(module))
            except FieldError as error:
                self._fault = error.problem.what
                raise
            self._module = module
        return self._module


class SnippetFunction:
    """A function of a snippet, plain or ``async``.

    ``place`` is the line that defines it: whatever is wrong with what it returns is
    told with that line.
    """

    def __init__(self, snippet: Snippet, name: str, place: Place) -> None:
        """Nothing is run yet."""
        self._snippet, self.name, self.place = snippet, name, place

    def raw(self) -> Callable[..., Any]:
        """The function itself, for callers that drive it by themselves inside
        :meth:`guarded`.

        Raises:
            DocumentError: The snippet cannot be run, or the name is no function.
        """
        found: Any = vars(self._snippet.module()).get(self.name)
        if not callable(found):
            what = f"{self.name} is no function but {found!r:.60}"
            raise FieldError(what, self.place)
        function: Callable[..., Any] = found
        return function

    def takes(self, name: str) -> bool:
        """Whether it has a parameter of that name.

        Raises:
            DocumentError: As for :meth:`raw`.
        """
        return name in self.parameters()

    def declares(self, name: str) -> bool:
        """Whether its definition has a parameter of that name; nothing is run."""
        return name in self._snippet.declared(self.name)

    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters.

        Raises:
            DocumentError: As for :meth:`raw`.
        """
        try:
            return tuple(inspect.signature(self.raw()).parameters)
        except (TypeError, ValueError):  # built-in functions have none
            return ()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """A block in which the function runs: with the time limit, and with whatever it
        raises told as its fault.

        Raises:
            DocumentError: Instead of any exception.
        """
        with guarded(self.name, self.place, self._snippet.seconds):
            yield

    def __call__(self, *arguments: Any) -> Any:
        """What it returns; what it awaits is waited for.

        Raises:
            DocumentError: It raised something, or took too long.
        """
        return self.read(lambda given: given, *arguments)

    def read(self, reader: Callable[[Any], T], *arguments: Any) -> T:
        """What a reader makes of what it returns. What is returned may be of somebody
        else's making too: what its methods raise is a fault of the function.

        Raises:
            DocumentError: It raised something, or took too long; or what the reader
                says.
        """
        function = self.raw()
        with self.guarded():
            given = function(*arguments)
            return reader(asyncio.run(given) if inspect.iscoroutine(given) else given)

    def refused(self, what: str, fix: str = "") -> FieldError:
        """The error for a return value that means nothing.

        Args:
            what: What is wrong, without the function's name.
            fix: What it should return.
        """
        return FieldError(f"{self.name} {what}", self.place, fix)


def snippet_of(section: Section, key: str, name: str) -> SnippetFunction | None:
    """The function of the snippet under a key; what is wrong is a problem of the file.

    Args:
        section: What has the key.
        key: Such as ``compute_scores_snippet``.
        name: Of the function, such as ``compute_scores``.
    """
    source = section.take(key, str, "")
    if not source:
        if section.values.get(key) in (None, ""):
            section.problem(key, f"{key} is missing", f"{key}: !include my_code.py")
        return None
    place, rules = section.text_place(key), section.file.code
    if not rules.may_run(place.path):
        what = f"{key}: Python outside of the suite is not run"
        fix = f"--evals-latticeflow-allow-code {Place(place.path.parent)}"
        section.problem(key, what, fix)
        return None
    try:
        return Snippet(source, place, rules.seconds).function(name)
    except TaskFileError as error:
        section.problems.extend(error.problems)
        return None


def _names(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Names that statements bind at the top of a module, each with its line."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name, statement.lineno
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    yield bound, statement.lineno
            case _:
                for node in ast.walk(statement):
                    if isinstance(node, _Definition):
                        yield node.name, node.lineno
                    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        yield node.id, node.lineno
                    elif isinstance(node, ast.alias):
                        yield node.asname or node.name, statement.lineno
