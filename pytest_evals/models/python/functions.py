"""Functions that specs name: their import, names and versions, and what they take and
return.

``prompt`` is a string, or a list of message dicts if the prompt is a chat or has
images; ``messages`` is always a list; ``request`` is the :class:`Generate`. Otherwise
the first parameter gets the prompt.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from pytest_evals.core.request import IMAGE_OPTIONS, Generate, Message, Response
from pytest_evals.core.response_contract import described
from pytest_evals.core.returned import messages_of, text_of
from pytest_evals.data.calls import error_text
from pytest_evals.errors import (
    DocumentError,
    OptionError,
    Place,
    did_you_mean,
    suggestion,
)
from pytest_evals.models.chat_messages import chat_messages

Function = Callable[..., Any]
SESSION_METHOD = "respond"  # The method of a class of sessions that answers
_PROJECT = ("pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", ".git")
"""Files that mark the root folder of a project."""
FIELDS = (
    *("text", "data", "calls", "contexts", "messages", "steps", "usage", "cost"),
    *("latency_s", "metadata", "error"),
)
"""Keys of a mapping: the fields of a response that an application may set."""
COUNTS = {
    "prompt_tokens": "n_prompt_tokens",
    "input_tokens": "n_prompt_tokens",
    "completion_tokens": "n_tokens",
    "output_tokens": "n_tokens",
}
"""Name in ``usage`` → field of a response."""


def load_function(target: str) -> Function:
    """Import the function ``MODULE:NAME``; ``OptionError`` if that is impossible. The
    module may be in the working directory, in a folder above it up to the project's
    root, or installed."""
    module_name, _, path = target.partition(":")
    owner: Any = _load_module(module_name)
    module = owner
    for name in path.split("."):
        try:
            owner = getattr(owner, name)
        except AttributeError:
            raise OptionError(_no_attribute(target, module, owner, name)) from None
    if not is_session_class(owner):
        check_function(owner, f"python:{target}")
    function: Function = owner
    return function


def is_session_class(given: object) -> bool:
    """Whether an object is a class of sessions
    (:mod:`~pytest_evals.models.python.sessions`)."""
    return isinstance(given, type) and callable(getattr(given, SESSION_METHOD, None))


def check_function(function: object, name: str) -> None:
    """Raise ``OptionError`` for an object that cannot be called, and for a class."""
    if isinstance(function, type):
        raise OptionError(
            f"{name} is a class without a method respond\n"
            "  fix: name a function, an instance with __call__, or a class of sessions"
        )
    if not callable(function):
        raise OptionError(f"{name} is {described(function)}, not a function")


def qualified_name(function: Function) -> str:
    """Module and name of a function, ``my_app:respond``. Functions without a name of
    their own have a line number."""
    inner = function if isinstance(function, type) else unwrapped(function)
    if not hasattr(inner, "__qualname__"):
        inner = type(inner)
    module = getattr(inner, "__module__", None) or "builtins"
    name = f"{module}:{inner.__qualname__}"
    code = getattr(inner, "__code__", None)
    return f"{name}@{code.co_firstlineno}" if "<" in name and code else name


def version_of(function: Function, version: object = "") -> str:
    """The version of a function: the given one, or its attribute ``version``; a text, a
    number, a date, or a function that returns one; ``OptionError`` for anything else,
    or if that function fails. Empty if missing."""
    owners = (function, unwrapped(function), getattr(function, "__self__", None))
    found: Any = version
    for owner in owners:
        if found in ("", None):
            found = getattr(owner, "version", "")
    name = qualified_name(function)
    if callable(found):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            text = error_text(error, found)
            raise OptionError(f"the version of {name} failed: {text}") from error
    if isinstance(found, bool) or not isinstance(found, str | int | float | date):
        raise OptionError(
            f"the version of {name} is {described(found)}\n"
            "  fix: use a text, a number or a date"
        )
    return str(found).strip()


def unwrapped(function: Function) -> Function:
    """The function in ``functools.partial`` objects and decorators."""
    while isinstance(function, partial):
        function = function.func
    inner: Function = inspect.unwrap(function)
    return inner


def code_owner(function: Function) -> object:
    """The object with the code of a function; of an instance, its ``__call__``."""
    if isinstance(function, type):
        return getattr(function, SESSION_METHOD, None)
    inner = unwrapped(function)
    if hasattr(inner, "__code__"):
        return inner
    return getattr(type(inner), "__call__", None)  # noqa: B004 - not a test


def _load_module(name: str) -> ModuleType:
    folders = list(_folders())
    top = name.partition(".")[0]
    for folder in folders:
        if (folder / top).is_dir() or (folder / f"{top}.py").is_file():
            # As pytest does for the folders of conftest files: the application may
            # import its own modules later.
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            break
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except SyntaxError as error:
        place = Place(Path(error.filename or f"{name}.py"), error.lineno or 0)
        message = f"{place}: {type(error).__name__}: {error.msg}"
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise OptionError(_no_module(name, error.name, folders)) from None
        message = error_text(error, _of_module(error, name))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of the user
        message = error_text(error, _of_module(error, name))
    raise OptionError(f"the module {name!r} cannot be imported: {message}")


def _folders() -> Iterator[Path]:
    """The working directory, and the folders above it up to the project's root."""
    here = Path.cwd()
    above = [here, *here.parents]
    for n, folder in enumerate(above):
        if any((folder / name).exists() for name in _PROJECT):
            yield from above[: n + 1]
            return
    yield here


def _of_module(error: BaseException, name: str) -> object:
    """An object with the code of a module that was being imported."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") == name:
            return SimpleNamespace(__code__=frame.f_code)
    return None


def _no_module(name: str, missing: str, folders: list[Path]) -> str:
    above, _, last = missing.rpartition(".")
    if above:
        path = getattr(sys.modules.get(above), "__path__", None)
        if path is None:
            return f"no module {name!r}: {above!r} is a module and not a package"
    else:
        path = [*map(str, folders)]
    known = [one.name for one in pkgutil.iter_modules(path)]
    hint = did_you_mean(last, known)
    where = f" in the package {above!r}" if above else ""
    return (
        f"no module {missing!r}{where}{hint}\n"
        f"  fix: run pytest in the folder of the module (this is {str(Path.cwd())!r}), "
        "install its package, or set pythonpath in the ini file"
    )


def _no_attribute(target: str, module: ModuleType, owner: object, name: str) -> str:
    known = [
        key
        for key, value in getattr(owner, "__dict__", {}).items()
        if not (key.startswith("_") or isinstance(value, type)) and callable(value)
    ]
    hint = suggestion(name, known) if known else ""
    file = getattr(module, "__file__", None)
    place = f" ({Place(Path(file))})" if file else ""
    message = f"the module {module.__name__!r}{place}"
    if owner is not module:
        message = f"'python:{target}': {described(owner)}"
    return f"{message} has no {name!r}{hint}"


class PromptParameter(NamedTuple):
    """A parameter that gets a value: its keyword, empty if positional, and which."""

    keyword: str
    value: str


def parameters_of(
    function: Callable[..., Any], name: str
) -> tuple[PromptParameter, ...]:
    """The parameters that get a value; ``OptionError`` if the function has none for the
    prompt, or another one without a default."""
    try:
        known = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # a built-in function
        return (PromptParameter("", "prompt"),)
    takers: list[PromptParameter] = []
    is_named = any(_is_named(one) for one in known)
    for n, one in enumerate(known):
        if _is_named(one):
            takers.append(PromptParameter(one.name, one.name))
        elif n == 0 and not is_named and one.kind not in _NOT_FIRST:
            value = one.name if one.name in _VALUES else "prompt"
            takers.append(PromptParameter("", value))
        elif one.default is one.empty and one.kind not in _VARIABLE:
            raise OptionError(
                f"{name} has the parameter {one.name!r} without a default\n"
                "  fix: give it a default; a function may take prompt, messages and "
                "request"
            )
    if not takers:
        raise OptionError(
            f"{name} has no parameter for the prompt\n"
            f"  fix: def {name.rpartition(':')[2]}(prompt): …"
        )
    return tuple(takers)


def arguments_of(
    request: Generate, parameters: Sequence[PromptParameter]
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for a request."""
    values = [(one.keyword, _VALUES[one.value](request)) for one in parameters]
    positional = [value for keyword, value in values if not keyword]
    return positional, {keyword: value for keyword, value in values if keyword}


def chat_of(request: Generate) -> tuple[Message, ...]:
    """The messages of a prompt; a text is one of the user."""
    prompt = request.prompt
    return (Message("user", prompt),) if isinstance(prompt, str) else prompt


def _messages(request: Generate) -> list[dict[str, Any]]:
    return chat_messages(chat_of(request), dict(request.options))


def _prompt(request: Generate) -> str | list[dict[str, Any]]:
    has_images = IMAGE_OPTIONS & {*dict(request.options)}
    if isinstance(request.prompt, str) and not has_images:
        return request.prompt
    return _messages(request)


_VALUES: Mapping[str, Callable[[Generate], Any]] = {
    "prompt": _prompt,
    "messages": _messages,
    "request": lambda request: request,
}
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_NOT_FIRST = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def _is_named(one: inspect.Parameter) -> bool:
    kinds = (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    return one.name in _VALUES and one.kind in kinds


def response_in(value: object) -> Response:
    """Return the response in a return value.

    A mapping without ``text`` answers with the last message of the assistant, else with
    its ``data`` as JSON, else with an empty text.

    Raises:
        DocumentError: It is of another type, or a mapping with other keys.
    """
    if isinstance(value, str):
        return Response(text=str(value), finish="stop")
    if isinstance(value, Response):
        return value
    if not isinstance(value, Mapping):
        raise DocumentError(
            f"{described(value)}\n  fix: return a str, a dict or a Response"
        )
    return Response(**_fields(value))


def _fields(value: Mapping[Any, Any]) -> dict[str, Any]:
    fields = {name: one for name, one in value.items() if one is not None}
    for name in fields:
        if name not in FIELDS:
            raise DocumentError(
                f"a dict with the key {name!r}{suggestion(str(name), FIELDS)}\n"
                f"  fix: use {', '.join(FIELDS)}; put other values under metadata"
            )
    if not fields:
        raise DocumentError('an empty dict\n  fix: return {"text": "…"}')
    if "error" not in fields:
        fields.setdefault("text", _text(fields))
        fields["finish"] = "stop"
    if isinstance(usage := fields.get("usage"), Mapping):
        for name, field in COUNTS.items():
            if name in usage:
                fields[field] = usage[name]
    return fields


def _text(fields: Mapping[str, Any]) -> str:
    try:
        messages = messages_of(fields.get("messages"))
        for one in reversed(messages):
            if one["role"] == "assistant" and one.get("content"):
                return text_of(one["content"])
        if "data" in fields:
            return text_of(fields["data"])
    except (TypeError, ValueError, RecursionError):
        return ""  # the check of all responses names the field
    if messages and all(one["role"] != "assistant" for one in messages):
        raise DocumentError(
            "messages without an answer of the assistant\n"
            '  fix: add {"role": "assistant", "content": …}, or text'
        )
    return ""
