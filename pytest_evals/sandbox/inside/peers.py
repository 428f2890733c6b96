"""A program in one process, its tests in another: calls cross as data.

The tests see names of the program as :class:`Remote` objects. Arguments and results are
plain values (:mod:`values`); other objects stay in the process of the program and are
used through it. A remote object never equals a plain value, has no arithmetic and no
order, so a program cannot decide a comparison of the tests.
"""

from __future__ import annotations

import builtins
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from .values import decode, encode, frame, read_frame, write_all

if TYPE_CHECKING:
    import ast


class CannotCross(Exception):
    """The tests pass a value that exists in their process only."""


class ProgramEnded(BaseException):
    """The program's process ended; no test can catch this as an ``Exception``."""


class Peer:
    """One end: ``side`` is ``program`` or ``tests``."""

    def __init__(self, descriptor: int, side: str) -> None:
        self.side = side
        self._descriptor = descriptor
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        # Also here, because tests may catch every exception, as unittest does.
        self.has_ended, self.uncrossed = False, ""

    def _end(self) -> NoReturn:
        self.has_ended = True
        raise ProgramEnded from None

    def send(self, message: Any) -> None:
        """Send a message."""
        try:
            write_all(self._descriptor, frame(message))
        except OSError:
            self._end()

    def receive(self) -> Any:
        """Return the next message of the other end."""
        try:
            message = read_frame(self._descriptor)
        except (EOFError, OSError, ValueError):
            self._end()
        if not isinstance(message, dict):
            self._end()
        return message

    def encoded(self, value: Any) -> Any:
        """Return JSON for a value, or for a handle of it."""
        return encode(value, self.handle)

    def decoded(self, data: Any) -> Any:
        """Return the value of JSON."""
        return decode(data, self._object)

    def handle(self, value: Any) -> Any:
        """Return JSON of a handle, also for a value that has a plain form."""
        if isinstance(value, Remote):
            return {"handle": [_OTHER[self.side], value._evals_number]}
        if self.side == "tests" and not callable(value):
            self.uncrossed = type(value).__name__
            raise CannotCross(self.uncrossed)
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return {"handle": [self.side, number]}

    def _object(self, data: Any) -> Any:
        side, number = data
        return self._objects[number] if side == self.side else Remote(self, number)

    def ask(self, op: str, target: int, *arguments: Any, **named: Any) -> Any:
        """Let the other end use one of its objects; return the result."""
        self.send({
            "op": op,
            "target": target,
            "arguments": [self.encoded(one) for one in arguments],
            "named": {key: self.encoded(one) for key, one in named.items()},
        })  # fmt: skip
        while True:
            message = self.receive()
            if "op" in message:
                self.send(self.answer(message))
                continue
            self._update(arguments, message.get("changed", {}))
            if "raised" in message:
                raise _exception(message, self.decoded)
            return self.decoded(message.get("value"))

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Use an object for the other end; return the reply."""
        arguments = [self.decoded(one) for one in message["arguments"]]
        named = {key: self.decoded(one) for key, one in message["named"].items()}
        try:
            op, target = message["op"], self._objects[message["target"]]
            if self.side == "tests" and op != "call":
                raise TypeError("this object can only be called")
            value = _OPERATIONS[op](target, *arguments, **named)
            reply: dict[str, Any] = {"value": self.encoded(value)}
        except (CannotCross, ProgramEnded):
            raise
        except BaseException as error:  # noqa: BLE001 - crosses to the other end
            reply = self._raised(error)
        reply["changed"] = {}
        for at, (before, after) in enumerate(
            zip(message["arguments"], arguments, strict=True)
        ):
            if isinstance(after, list | dict | set | bytearray):
                now = self.encoded(after)
                if now != before:
                    reply["changed"][str(at)] = now
        return reply

    def _raised(self, error: BaseException) -> dict[str, Any]:
        kinds = (one for one in type(error).__mro__ if issubclass(one, BaseException))
        names = (
            one.__name__ for one in kinds if one is vars(builtins).get(one.__name__)
        )
        try:
            text = str(error)
        except Exception:  # noqa: BLE001 - an exception of the program
            text = ""
        try:
            arguments = [self.encoded(one) for one in error.args]
        except Exception:  # noqa: BLE001 - an exception of the program
            arguments = [text]
        return {
            "raised": next(names, "Exception"),
            "arguments": arguments,
            "text": text,
        }

    def _update(self, arguments: tuple[Any, ...], changed: Mapping[str, Any]) -> None:
        """Apply the changes of mutable arguments."""
        for at, data in changed.items():
            old, new = arguments[int(at)], self.decoded(data)
            if type(old) is not type(new):
                continue
            if isinstance(old, list | bytearray):
                old[:] = new
            else:
                old.clear()
                old.update(new)


_OTHER = {"program": "tests", "tests": "program"}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda target, *arguments, **named: target(*arguments, **named),
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "getitem": lambda target, key: target[key],
    "setitem": lambda target, key, value: target.__setitem__(key, value),
    "delitem": lambda target, key: target.__delitem__(key),
    "len": len,
    "iter": iter,
    "next": next,
    "bool": bool,
    "str": str,
    "repr": repr,
    "eq": lambda target, other: bool(target == other),
    "isinstance": lambda target, one: isinstance(one, target),
}


def _exception(message: Mapping[str, Any], decoded: Callable[[Any], Any]) -> Exception:
    kind = getattr(builtins, str(message["raised"]), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return RuntimeError(str(message.get("text")))  # SystemExit, KeyboardInterrupt
    try:
        return kind(*[decoded(one) for one in message["arguments"]])
    except (TypeError, ValueError):
        return RuntimeError(str(message.get("text")))


def _asking(op: str, kind: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """Return a method that lets the other process do an operation; ``kind`` makes the
    result a built-in type."""

    def method(self: Remote, *arguments: Any, **named: Any) -> Any:
        result = self._evals_ask(op, *arguments, **named)
        return result if kind is None else kind(result)

    return method


class Remote:
    """An object of the other process."""

    def __init__(self, peer: Peer, number: int) -> None:
        object.__setattr__(self, "_evals_peer", peer)
        object.__setattr__(self, "_evals_number", number)

    def _evals_ask(self, op: str, *arguments: Any, **named: Any) -> Any:
        return self._evals_peer.ask(op, self._evals_number, *arguments, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__name__":
            raise AttributeError(name)
        return self._evals_ask("getattr", name)

    __setattr__ = _asking("setattr")
    __delattr__ = _asking("delattr")
    __call__ = _asking("call")
    __getitem__ = _asking("getitem")
    __setitem__ = _asking("setitem")
    __delitem__ = _asking("delitem")
    __next__ = _asking("next")
    __len__ = _asking("len", int)
    __bool__ = _asking("bool", bool)
    __str__ = _asking("str", str)
    __repr__ = _asking("repr", str)

    def __iter__(self) -> Iterator[Any]:
        iterator = self._evals_ask("iter")
        return iterator if isinstance(iterator, Remote) else iter(iterator)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Remote):
            return False
        same = self._evals_number == other._evals_number
        return same or bool(self._evals_ask("eq", other))

    def __hash__(self) -> int:
        return hash(self._evals_number)

    def __instancecheck__(self, one: object) -> bool:
        return isinstance(one, Remote) and bool(self._evals_ask("isinstance", one))


def serve(descriptor: int, run: Callable[[], dict[str, Any]]) -> NoReturn:
    """Be the program: run it, then answer the tests until they end. ``run``: runs the
    program's own code; returns its names."""
    peer = Peer(descriptor, "program")
    try:
        names = run()
    except BaseException as error:  # noqa: BLE001 - reported to the tests
        text = peer._raised(error)["text"]
        peer.send({"failed": text})
        os._exit(0)
    peer.send({"ready": True})
    try:
        while True:
            message = peer.receive()
            if message["op"] == "name":
                peer.send(_name(peer, names, message["name"]))
            elif message["op"] == "imports":
                _import(message["source"], names)
            else:
                peer.send(peer.answer(message))
    except ProgramEnded:
        os._exit(0)


def _import(source: str, names: dict[str, Any]) -> None:
    try:
        exec(source, names)
    except Exception:  # noqa: BLE001 - the tests run the same imports and report it
        return


def _name(peer: Peer, names: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name not in names:
        return {}
    value = names[name]
    if type(value) is type(os):
        return {"module": value.__name__}
    try:
        return {"value": peer.encoded(value)}
    except RecursionError:
        return {"value": peer.handle(value)}


ENDED = "failed: the program ended before its tests"


def outcome(descriptor: int, source: str) -> str:
    """Run tests against the program at the other end of a socket. Returns ``passed``,
    ``failed: REASON``, or ``cannot cross: REASON`` if the tests need the program in
    their own process."""
    peer = Peer(descriptor, "tests")
    try:
        first = peer.receive()
        if "ready" not in first:
            return f"failed: {first.get('failed')}"
        verdict = _run(peer, source)
    except ProgramEnded:
        return ENDED
    if peer.has_ended:
        return ENDED
    return f"cannot cross: {peer.uncrossed}" if peer.uncrossed else verdict


def _run(peer: Peer, source: str) -> str:
    import ast

    try:
        tree = ast.parse(source)
        names: dict[str, Any] = {"__name__": "__main__"}
        imports = [
            one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)
        ]
        if imports:
            text = "\n".join(map(ast.unparse, imports))
            peer.send({"op": "imports", "source": text})
        for name in _free_names(tree):
            _fetch(peer, name, names)
        exec(compile(tree, "<string>", "exec"), names)
    except ProgramEnded:
        raise
    except BaseException as error:  # noqa: BLE001 - every exception fails the tests
        return f"failed: {error}"
    return "passed"


def _free_names(tree: ast.AST) -> list[str]:
    """Return names that may be the program's. Built-in functions never are: a program
    that redefines ``abs`` would decide a comparison."""
    import ast

    found = {one.id: None for one in ast.walk(tree) if isinstance(one, ast.Name)}
    return [name for name in found if not hasattr(builtins, name)]


def _fetch(peer: Peer, name: str, names: dict[str, Any]) -> None:
    peer.send({"op": "name", "name": name})
    reply = peer.receive()
    if "module" in reply:
        names[name] = importlib.import_module(str(reply["module"]))
    elif "value" in reply:
        names[name] = peer.decoded(reply["value"])
