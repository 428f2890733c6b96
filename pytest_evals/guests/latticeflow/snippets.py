"""Runs the Python code of task files, or of files that they include.

A snippet is compiled when its file is read and executed on first use: in this process,
as a separate module, with a time limit. Every failure becomes an error of one document,
with the line of the user's file; neither session nor process can be ended.

The names that snippets import from ``latticeflow`` are provided if the package is
missing. Only ``import`` statements of snippets see them: ``sys.modules`` is not
modified, and an installed package takes precedence.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib.util
import inspect
import itertools
import opcode
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import lru_cache
from numbers import Integral, Number
from types import ModuleType, TracebackType
from typing import Any, NoReturn, TypeVar, cast

from pytest_evals.core.threads import OvertimeError, time_limit
from pytest_evals.data.calls import FieldError, error_text
from pytest_evals.dialects.module_loader import Import, StandInImports
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.prompts import items, output, trace
from pytest_evals.guests.latticeflow.prompts.output import SampleScore
from pytest_evals.sandbox.runner import CONSENT
from pytest_evals.sandbox.session import current_sandbox
from pytest_evals.sandbox.source_scan import execution

_GUARDED = ContextVar("_GUARDED", default=0)
"""Process id while code is guarded, else 0; a child process may exit."""
_exit = os._exit


@contextmanager
def guarded(label: str, place: Place, seconds: float) -> Iterator[None]:
    """Run user code, which starts at a place, in a block. Any exception, and the time
    limit, becomes a ``DocumentError`` with the line of this file that is to blame.
    Ctrl-C is not converted."""
    try:
        with no_running_loop(), _no_exit(), time_limit(seconds):
            yield
    except FieldError:
        raise
    except OvertimeError as error:
        late = TimeoutError(f"not finished after {seconds:g} s")
        text = error_text(late.with_traceback(error.__traceback__), _code_in(place))
        raise FieldError(f"{label}: {text}", place) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not _is_raised(error, place):
            raise
        text = error_text(error, _code_in(place))
        raise FieldError(f"{label}: {text}", place) from error


def _is_raised(error: BaseException, place: Place) -> bool:
    """Return whether a statement of this file raised the error, not Ctrl-C."""
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_filename != str(place.path):
        return False
    instruction = last.tb_frame.f_code.co_code[last.tb_lasti]
    return opcode.opname[instruction] == "RAISE_VARARGS"


@lru_cache(maxsize=64)
def _code_in(place: Place) -> Callable[[], object]:
    code = compile("lambda: None", str(place.path), "eval")
    return cast("Callable[[], object]", eval(code, {}))


@contextmanager
def _no_exit() -> Iterator[None]:
    """Make ``os._exit`` raise ``SystemExit`` inside the block, like ``sys.exit``.
    Otherwise it would end the process without a message, possibly with status 0."""
    if os._exit is not _guarded_exit:
        os._exit = _guarded_exit
    token = _GUARDED.set(os.getpid())
    try:
        yield
    finally:
        _GUARDED.reset(token)


def _guarded_exit(status: int) -> NoReturn:
    if _GUARDED.get() == os.getpid():
        raise SystemExit(status)
    _exit(status)


# asyncio allows one running loop per thread. While user code runs, its thread's loop is
# hidden, so that the code can start its own loop in the same thread, where the time
# limit applies.
@contextmanager
def no_running_loop() -> Iterator[None]:
    """Hide the running event loop inside the block; the outer loop is suspended."""
    loop = asyncio._get_running_loop()
    if loop is None:
        yield
        return
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


_PACKAGE = "latticeflow"
_PATHS = (f"{_PACKAGE}.core.dtypes", f"{_PACKAGE}.assessment.dtypes")
"""Modules that contain these names in current and earlier versions."""

MessageRole = StrEnum("MessageRole", ["USER", "ASSISTANT", "SYSTEM", "DEVELOPER"])
MessageStatus = StrEnum("MessageStatus", ["IN_PROGRESS", "COMPLETED", "INCOMPLETE"])
SystemTaskMetricEntry = items.part_kind("SystemTaskMetricEntry", __name__, reason=None)
SystemTaskOutput = items.part_kind("SystemTaskOutput", __name__)
_NAMES: Mapping[str, Any] = {
    **{name: getattr(items, name) for name in items.PART_KINDS},
    "ChatCompletionModelOutput": output.ChatCompletionModelOutput,
    "ChatCompletionModelOutputChoice": output.ChatCompletionModelOutputChoice,
    "ChatCompletionOutputMessage": output.ChatCompletionOutputMessage,
    "MessageRole": MessageRole,
    "MessageStatus": MessageStatus,
    "ModelResponse": output.ModelResponse,
    "OutputText": output.OutputText,
    "RawSample": dict[str, Any],
    "SampleScore": SampleScore,
    "SolverOutput": output.SolverOutput,
    "SolverTrace": output.SolverTrace,
    "SystemTaskMetricEntry": SystemTaskMetricEntry,
    "SystemTaskOutput": SystemTaskOutput,
    "Trace": trace.Trace,
    "TraceTurn": trace.TraceTurn,
}


def builtins_of_snippets() -> dict[str, Any]:
    """Return ``__builtins__`` of a module whose imports use the shims."""
    if _PACKAGE in sys.modules:
        is_installed = sys.modules[_PACKAGE] is not None
    else:
        is_installed = importlib.util.find_spec(_PACKAGE) is not None
    imports: Import = builtins.__import__ if is_installed else _imports()
    return {**vars(builtins), "__import__": imports}


@lru_cache(maxsize=1)
def _imports() -> StandInImports:
    parents = (_PACKAGE, *(path.rpartition(".")[0] for path in _PATHS))
    names = {**{one: {} for one in parents}, **dict.fromkeys(_PATHS, _NAMES)}
    return StandInImports([_PACKAGE], names, _missing_attribute, _missing_import)


def _missing_attribute(module: str, name: str) -> Any:
    hint = did_you_mean(name, list(_NAMES))
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def _missing_import(name: str) -> Any:
    module, _, last = name.rpartition(".")
    if module in _PATHS:
        hint = did_you_mean(last, list(_NAMES))
        raise ImportError(f"cannot import name {last!r} from {module!r}{hint}")
    hint = did_you_mean(name, list(_PATHS))
    raise ModuleNotFoundError(f"No module named {name!r}{hint}", name=name)


T = TypeVar("T")
_numbers = itertools.count()
_LARGEST = 1 << 1024  # Larger than every float


class Snippet:
    """A function, sync or ``async``, of a module in a string, which is executed on
    first use. ``place`` is that of the text, and then the line of the function's
    definition, where invalid return values are reported; ``seconds`` the time limit of
    the module and of each call, 0 for none.

    Raises ``TaskFileError`` if the text is not Python or does not define the name."""

    def __init__(
        self, source: str, name: str, place: Place, seconds: float = 0
    ) -> None:
        self.name, self._origin, self._seconds = name, place, seconds
        self._module: ModuleType | None = None
        self._fault = ""
        self._lock = threading.Lock()  # models call it from several threads
        padding = "\n" * (max(place.line, 1) - 1)
        try:
            self._tree = ast.parse(padding + source, str(place.path))
            self._code = compile(self._tree, str(place.path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None) or place.line
            message = f"invalid Python: {getattr(error, 'msg', None) or error}"
            raise TaskFileError([Problem(message, Place(place.path, line))]) from None
        known = dict(_names(self._tree.body))
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            message = f"the snippet does not define {name}{hint}"
            raise TaskFileError([Problem(message, place, f"def {name}(…):")])
        self.place = Place(place.path, known[name])

    def declares(self, parameter: str) -> bool:
        """Return whether its definition has such a parameter; nothing is executed."""
        for node in self._tree.body:
            match node:
                case ast.FunctionDef(args=a) | ast.AsyncFunctionDef(args=a) if (
                    node.name == self.name
                ):
                    every = (*a.posonlyargs, *a.args, *a.kwonlyargs)
                    return parameter in [one.arg for one in every]
        return False

    def _execute(self) -> ModuleType:
        """Return the module, executed once. If that failed or took too long, every call
        raises ``DocumentError``."""
        if self._fault:
            raise FieldError(self._fault, self._origin)
        if self._module is None:
            name = f"evals_snippet_{next(_numbers)}"
            module = ModuleType(name)
            vars(module)["__file__"] = str(self._origin.path)
            vars(module)["__builtins__"] = builtins_of_snippets()
            sys.modules[name] = module  # required by dataclasses
            try:
                with guarded("the snippet", self._origin, self._seconds):
                    exec(self._code, vars(module))
            except FieldError as error:
                self._fault = error.problem.message
                raise
            self._module = module
        return self._module

    def raw(self) -> Callable[..., Any]:
        """Return the function itself, to be called inside :meth:`guarded`."""
        with self._lock:
            value: Any = vars(self._execute()).get(self.name)
        if not callable(value):
            message = f"{self.name} is not a function but {value!r:.60}"
            raise FieldError(message, self.place)
        function: Callable[..., Any] = value
        return function

    def parameters(self) -> tuple[str, ...]:
        """Return the names of its parameters."""
        try:
            return tuple(inspect.signature(self.raw()).parameters)
        except (TypeError, ValueError):  # built-in functions have none
            return ()

    def guarded(self) -> AbstractContextManager[None]:
        """Run the function in a block: with its time limit, and any exception becomes a
        ``DocumentError``."""
        return guarded(self.name, self.place, self._seconds)

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

    def expect(self, is_valid: bool, noun: str, value: Any, fix: str = "") -> None:
        """Raise the error for an invalid return value if a value is not as expected."""
        if not is_valid:
            raise self.invalid_return(f"must return {noun}, not {value!r:.80}", fix)

    def invalid_return(self, message: str, fix: str = "") -> FieldError:
        """Return the error for an invalid return value; ``message`` is without the
        function's name, ``fix`` is a valid value."""
        return FieldError(f"{self.name} {message}", self.place, fix)


_WITHOUT_ANSWERS = ("run_inference", "synthesize")
"""Functions that make answers or data."""


def snippet_of(
    section: Keys, key: str, name: str, seconds: float | None = None
) -> Snippet:
    """Return the function ``name`` of the snippet under a key; after errors, one that
    does nothing. ``seconds``: time limit, if it is not that of the session."""
    source, found = section.take(key, str, ""), None
    place, rules = section.text_place(key), section.file.code
    if not source:
        if section.values.get(key) in (None, ""):
            section.problem(key, f"{key} is missing", f"{key}: !include my_code.py")
    elif not rules.may_run(place.path):
        message = f"{key}: Python files outside the suite are not executed"
        fix = f"--evals-latticeflow-allow-code {Place(place.path.parent)}"
        section.problem(key, message, fix)
    elif (
        name not in _WITHOUT_ANSWERS
        and not current_sandbox().consents
        and (executes := execution(source))
    ):
        message = f"{key}: it executes strings, which may be model output: {executes}"
        section.problem(key, message, f"pass the program to run_code, or {CONSENT}")
    else:
        limit = rules.seconds if seconds is None else seconds
        found = section.or_problems(Snippet, source, name, place, limit)
    return found or Snippet(f"{name} = None", name, place)


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
