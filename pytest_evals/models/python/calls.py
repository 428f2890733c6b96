"""Calls of a function within its limits: concurrency and time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from pytest_evals.core.request import TRACES, Generate
from pytest_evals.errors import DocumentError, ModelError
from pytest_evals.models.http.event_loop import pause
from pytest_evals.models.python.functions import Function, PromptParameter, arguments_of
from pytest_evals.models.python.traces import Traces


class CallOutcome(NamedTuple):
    """What a call returned or raised."""

    value: object = None
    error: BaseException | None = None


class CallTimeLimitError(Exception):
    """A call took longer than the time limit."""


class FunctionCalls:
    """Calls a function: coroutines in the current event loop, others in threads.

    A thread cannot be stopped. After the time limit its call counts as failed, and it
    occupies its slot until it returns.
    """

    def __init__(
        self,
        function: Function,
        parameters: tuple[PromptParameter, ...],
        concurrency: int,
        time_limit_s: float,
    ) -> None:
        self._function, self._parameters = function, parameters
        self._limit_s, self._n_slots = time_limit_s, concurrency
        self._threads = DaemonThreads(concurrency)
        method = getattr(type(function), "__call__", None)  # noqa: B004 - of an instance
        self._is_async = any(map(inspect.iscoroutinefunction, (function, method)))
        self._running: set[asyncio.Future[CallOutcome]] = set()
        self._stuck: set[asyncio.Future[CallOutcome]] = set()
        self._watch: asyncio.Task[None] | None = None
        self.traces: Traces | None = None
        """Collects the spans of requests with that option."""
        self.n_late = 0  # Calls that did not end at the time limit
        self.blocked_s = 0.0  # Longest time that a coroutine has blocked the event loop

    @property
    def n_stuck(self) -> int:
        """Calls beyond the time limit that are still running."""
        return len(self._stuck)

    async def call(self, request: Generate) -> CallOutcome:
        """The outcome for a request; ``ModelError`` if all slots are occupied by calls
        beyond the time limit."""
        try:
            positional, named = arguments_of(request, self._parameters)
        except DocumentError as error:  # an image
            return CallOutcome(error=error)
        call: Callable[[], Any] = partial(self._function, *positional, **named)
        if dict(request.options).get(TRACES):
            self.traces = self.traces or Traces()
            call = self.traces.traced(call, is_async=self._is_async)
        if self._is_async:
            return await self._within_limits(lambda: _task(call))
        outcome = await self._within_limits(lambda: self._in_thread(call))
        value = outcome.value
        if inspect.isawaitable(value):
            return await self._within_limits(lambda: _task(lambda: value))
        return outcome

    def apart(self) -> AbstractContextManager[object]:
        """Keep spans of the code inside out of the trace of the case around it."""
        return nullcontext() if self.traces is None else self.traces.case()

    async def open(self) -> None:
        """Begin to measure how long coroutines block the event loop."""
        if self._is_async:
            self._watch = asyncio.create_task(self._measure())

    async def close(self) -> None:
        """End the threads."""
        if self.traces is not None:
            self.traces.close()
        self._threads.close()

    async def _measure(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(_BEAT_S)
            late_s = time.monotonic() - began - _BEAT_S
            self.blocked_s = max(self.blocked_s, late_s)

    async def _within_limits(
        self, start: Callable[[], asyncio.Future[CallOutcome]]
    ) -> CallOutcome:
        await self._free_slot()
        work = start()
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        try:
            done, _ = await asyncio.wait({work}, timeout=self._limit_s)
            if not done and isinstance(work, asyncio.Task):
                work.cancel()
                await asyncio.wait({work}, timeout=_GRACE_S)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if done and work.cancelled():
            message = "the coroutine cancelled itself"
            return CallOutcome(error=asyncio.CancelledError(message))
        if done:
            return work.result()
        if not work.done():
            self.n_late += 1
            self._stuck.add(work)
            work.add_done_callback(self._stuck.discard)
        return CallOutcome(error=CallTimeLimitError())

    async def _free_slot(self) -> None:
        while len(self._running) >= self._n_slots:
            done, _ = await asyncio.wait(
                self._running,
                timeout=self._limit_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            await pause(0)
            if not done and self.n_stuck >= self._n_slots:
                raise ModelError(
                    f"all {self._n_slots} concurrent calls are still running after the "
                    f"time limit of {self._limit_s:g} s\n"
                    "  fix: set a timeout inside the function, for example of its "
                    "client; or raise time_limit"
                )

    def _in_thread(self, call: Callable[[], Any]) -> asyncio.Future[CallOutcome]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CallOutcome] = loop.create_future()

        def finish(outcome: CallOutcome) -> None:
            if not future.done():
                future.set_result(outcome)

        def work() -> None:
            outcome = _called(call)
            with suppress(RuntimeError):  # the session has ended
                loop.call_soon_threadsafe(finish, outcome)

        self._threads.submit(work)
        return future


_BEAT_S = 0.25  # Interval between two measurements
_GRACE_S = 1.0  # Seconds that a cancelled coroutine may take to end


def _called(call: Callable[[], Any]) -> CallOutcome:
    try:
        return CallOutcome(call())
    except BaseException as error:  # noqa: BLE001 - of user code, also pytest's
        return CallOutcome(error=error)


def _task(call: Callable[[], Awaitable[Any]]) -> asyncio.Task[CallOutcome]:
    async def outcome() -> CallOutcome:
        try:
            return CallOutcome(await call())
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop
            return CallOutcome(error=error)

    return asyncio.create_task(outcome())


class DaemonThreads:
    """Daemon threads. ``concurrent.futures`` would wait for its own at exit."""

    def __init__(self, most: int) -> None:
        self._most, self._n = most, 0
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, call: Callable[[], None]) -> None:
        """Run a call, which raises nothing, in one of the threads."""
        self._calls.put(call)
        if self._n < self._most:
            self._n += 1
            Thread(target=self._work, name="evals-python", daemon=True).start()

    def close(self) -> None:
        """End the threads that are idle, and the others after their calls."""
        for _ in range(self._n):
            self._calls.put(None)
        self._n = 0

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
