"""Session objects of an application: one for each conversation, opened before its first
turn and closed when its case is complete.

A session is an object of a class with a method ``respond``. It is a context manager if
it has ``__enter__`` and ``__exit__``, or their async forms; otherwise its method
``close`` or ``aclose`` is called at the end, if there is one.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pytest_evals.core.request import PLACED_IMAGES, Generate, Message, Request
from pytest_evals.data.calls import error_text
from pytest_evals.errors import DocumentError
from pytest_evals.models.python.functions import (
    SESSION_METHOD,
    PromptParameter,
    arguments_of,
    chat_of,
    parameters_of,
    response_in,
)

RESTORE = "restore"  # Method that sets the state of a new session from earlier messages
Key = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class AppSession:
    """An open session: the object that answers, and the one that closes it."""

    app: Any
    manager: Any


@dataclass(slots=True, eq=False)
class AppSessions:
    """The open sessions of a class. All methods run in one event loop; methods of the
    application that are not async run in threads, one at a time for each session."""

    kind: type
    name: str
    parameters: tuple[PromptParameter, ...] = ()
    n_replayed: int = 0
    """Turns that were sent again, because their responses were stored."""
    faults: list[str] = field(default_factory=list)
    """Errors of sessions that were closed."""
    restored_s: dict[Request, float] = field(default_factory=dict)
    """Seconds before a turn that its session has taken to be restored."""
    apart: Callable[[], AbstractContextManager[object]] = nullcontext
    """A context in which the spans of earlier turns are ignored."""
    _waiting: dict[Key, list[AppSession]] = field(default_factory=dict)
    """Received messages → sessions that wait for the next turn."""
    _open: set[AppSession] = field(default_factory=set)

    def __post_init__(self) -> None:
        method = inspect.getattr_static(self.kind, SESSION_METHOD)
        if inspect.isfunction(method):
            bound: Callable[..., Any] = partial(method, None)
        else:
            bound = getattr(self.kind, SESSION_METHOD)
        self.parameters = parameters_of(bound, f"{self.name}.{SESSION_METHOD}")

    async def answer(self, request: Generate) -> Any:
        """Answer a request in the session of its conversation. A session that has not
        received the earlier turns, since their responses were stored, is restored:
        ``DocumentError`` if a turn then has another answer than before."""
        before = chat_of(request)[:-1]
        waiting = self._waiting.get(_key(request, before))
        is_new = not waiting
        session = waiting.pop() if waiting else await self._opened()
        try:
            if is_new and any(one.role == "assistant" for one in before):
                began = time.perf_counter()
                with self.apart():
                    await self._restore(session, request)
                self.restored_s[request] = time.perf_counter() - began
            value = await self._called(session, request)
        except BaseException as error:
            await self._close(session, error)
            raise
        key = _key(request, chat_of(request))
        self._waiting.setdefault(key, []).append(session)
        return value

    async def end(self, requests: Iterable[Request]) -> None:
        """Close the sessions of a case that is complete."""
        for one in requests:
            if isinstance(one, Generate):
                for session in self._waiting.pop(_key(one, chat_of(one)), ()):
                    await self._close(session)

    async def close(self) -> None:
        """Close all open sessions."""
        for session in [*self._open]:
            await self._close(session)
        self._waiting.clear()

    async def _opened(self) -> AppSession:
        manager = await _result(self.kind)
        app = manager
        for name in ("__aenter__", "__enter__"):
            if hasattr(self.kind, name):
                app = await _result(getattr(manager, name))
                break
        session = AppSession(manager if app is None else app, manager)
        self._open.add(session)
        return session

    async def _close(
        self, session: AppSession, error: BaseException | None = None
    ) -> None:
        """Close a session once; an error of it is recorded."""
        if session not in self._open:
            return
        self._open.discard(session)
        message = (None, None, None)
        if error is not None:
            message = (type(error), error, error.__traceback__)  # type: ignore[assignment]
        try:
            for name in ("__aexit__", "__exit__", "aclose", "close"):
                if hasattr(self.kind, name):
                    given = message if name.endswith("__") else ()
                    await _result(partial(getattr(session.manager, name), *given))
                    return
        except Exception as fault:  # noqa: BLE001 - of user code
            self.faults.append(error_text(fault, getattr(self.kind, name)))

    async def _called(self, session: AppSession, request: Generate) -> Any:
        positional, named = arguments_of(request, self.parameters)
        return await _result(partial(session.app.respond, *positional, **named))

    async def _restore(self, session: AppSession, request: Generate) -> None:
        """Bring a new session to the state before a turn: by its method ``restore``, or
        by the earlier turns."""
        before = chat_of(request)[:-1]
        if hasattr(session.app, RESTORE):
            given = [one._asdict() for one in before]
            await _result(partial(session.app.restore, given))
            return
        turns = [n for n, one in enumerate(before) if one.role == "assistant"]
        for number, n in enumerate(turns, 1):
            self.n_replayed += 1
            earlier = replace(request, prompt=before[:n])
            answer = response_in(await self._called(session, earlier)).text
            if str(answer).strip() != before[n].content.strip():
                raise DocumentError(
                    f"{self.name}: a new session gave another answer to turn {number} "
                    "than the stored one\n"
                    f"  fix: define {RESTORE}(messages), which sets its state; or send "
                    "all turns again with --evals-cache=refresh"
                )


async def _result(call: Callable[[], Any]) -> Any:
    """The result of a call: in this loop if it is async, else in a thread."""
    function = call.func if isinstance(call, partial) else call
    is_async = inspect.iscoroutinefunction(function)
    found = call() if is_async else await asyncio.to_thread(call)
    return await found if inspect.isawaitable(found) else found


def _key(request: Generate, messages: tuple[Message, ...]) -> Key:
    """The state of a session: the messages that it has received, with images."""
    received = [tuple(one) for one in messages if one.role != "assistant"]
    images = dict(request.options).get(PLACED_IMAGES, ())
    shown = [one[:4] for one in images if one[0] < len(messages)]
    return (request.conversation, request.repeat, *received, *shown)
