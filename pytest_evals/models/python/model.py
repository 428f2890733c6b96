"""A Python function as a model: an application, a chain or an agent."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from pytest_evals.core.finite import is_finite
from pytest_evals.core.latency import Timings
from pytest_evals.core.model import Model
from pytest_evals.core.request import GRAMMAR, UNSENT, Generate, Request, Response
from pytest_evals.core.response_contract import as_model
from pytest_evals.data.calls import error_text
from pytest_evals.errors import DocumentError, OptionError, SpendCapError, plural
from pytest_evals.models.http.errors import is_transient
from pytest_evals.models.http.event_loop import BackgroundModel, pause
from pytest_evals.models.http.retries import Backoff
from pytest_evals.models.http.spend_cap import SpendCap
from pytest_evals.models.http.usage import count_of
from pytest_evals.models.python.calls import (
    CallOutcome,
    CallTimeLimitError,
    FunctionCalls,
)
from pytest_evals.models.python.functions import (
    check_function,
    code_owner,
    is_session_class,
    parameters_of,
    qualified_name,
    response_in,
    version_of,
)
from pytest_evals.models.python.sessions import AppSessions
from pytest_evals.models.python.traces import SpanError, TracedValue, response_of

CONCURRENCY, TIME_LIMIT_S, RETRIES = 8, 300.0, 2
NO_SCORES = (
    "a Python function returns texts and no log-probabilities\n"
    "  fix: use tasks with output_type generate_until"
)
_BLOCKED_S = 1.0  # Seconds after which a blocked event loop is worth a note
_CLOSE_S = 2.0  # Seconds that cancelled coroutines may take when the session ends
_SESSIONS_S = 30.0  # Seconds that open sessions may take to close when the run ends
_TRANSIENT = (
    *("ConnectError", "ConnectionError", "ConnectionResetError", "NetworkError"),
    *("RateLimitError", "RemoteProtocolError", "ServerDisconnectedError", "Timeout"),
    *("TimeoutError", "TimeoutException"),
)
"""Ends of the names of exceptions in HTTP clients, which have their own bases."""


def model_of(given: object, source: str) -> Model:
    """A model object, or a function of the application as a model. ``source``: where it
    comes from, for messages. Raises ``ModelError`` if it is neither, ``OptionError`` if
    it is a function with other parameters."""
    is_class = isinstance(given, type) and not is_session_class(given)
    is_function = callable(given) and not is_class and not hasattr(given, "answer")
    return PythonModel(given) if is_function else as_model(given, source)  # type: ignore[arg-type]


class PythonModel(BackgroundModel):
    """Calls a function for each request.

    Coroutine functions run in one event loop, since clients are bound to a loop; other
    functions run in threads.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        version: str | Callable[[], object] = "",
        concurrency: int = CONCURRENCY,
        time_limit: float = TIME_LIMIT_S,
        retries: int = RETRIES,
        max_requests: int = 0,
    ) -> None:
        """Check the function; it is not called here.

        Args:
            function: From the prompt to a text or a ``Response``, or a coroutine
                function (:mod:`pytest_evals.models.python.functions`).
            version: Responses are stored for a version. Empty to use the attribute
                ``version`` of the function; without either they are not stored.
            time_limit: Seconds that one call may take.
            retries: Maximum of retries after a connection error or a busy server.
            max_requests: Maximum of calls in a run, retries included; 0 for none.
        """
        super().__init__()
        _check_limits(concurrency, time_limit, retries, max_requests)
        if not isinstance(function, type) or not is_session_class(function):
            check_function(function, "the model's function")
        self.label = qualified_name(function)  # The function's name in messages
        self.name = f"python:{self.label}"
        self._function = function
        self._ending: set[Future[None]] = set()
        self._sessions: AppSessions | None = None
        if isinstance(function, type):
            self._sessions = AppSessions(function, self.label)
            function = self._sessions.answer
        self._parameters = parameters_of(function, self.label)
        used = self._parameters if self._sessions is None else self._sessions.parameters
        self._version = version_of(self._function, version)
        self.fingerprint: Mapping[str, Any] | None = None
        if self._version:
            self.fingerprint = {"python": self.label, "version": self._version}
        self._takes_request = any(p.value == "request" for p in used)
        self._concurrency, self._limit_s = concurrency, time_limit
        self._retries, self._backoff = retries, Backoff()
        self._random = Random()
        self._retried: Counter[str] = Counter()
        self._usage: dict[str, Any] = {"requests": 0, "completion_tokens": 0}
        self._timings = Timings(self._usage)
        self._cap = SpendCap(self.name, self.label, max_requests)
        self._calls = FunctionCalls(function, self._parameters, concurrency, time_limit)
        if self._sessions is not None:
            self._sessions.apart = self._calls.apart

    @property
    def info(self) -> Mapping[str, Any]:
        """Name, function, version and counts."""
        usage = {**self._usage, "retries": self._retried.total()}
        if self._retried:
            usage["retried"] = dict(self._retried)
        return {
            "model": self.name,
            "function": self.label,
            "version": self._version,
            "usage": usage,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Whether responses are stored, and calls that blocked or did not end."""
        notes = []
        if not self._version:
            notes.append(
                "no version is set, so responses are neither stored nor reused\n"
                "  fix: set FUNCTION.version, or pass version=…; change it whenever "
                "answers may change"
            )
        if self._calls.blocked_s > _BLOCKED_S:
            notes.append(
                "the coroutine blocked the event loop for up to "
                f"{self._calls.blocked_s:.1f} s, so that concurrent calls waited\n"
                "  fix: await an asynchronous client, or write a plain function, which "
                "runs in threads"
            )
        if self._sessions is not None and self._sessions.n_replayed:
            notes.append(
                f"{self._sessions.n_replayed} turns whose responses were stored were "
                "sent again to new sessions\n"
                "  fix: define restore(messages)"
            )
        if self._sessions is not None and (faults := self._sessions.faults):
            notes.append(f"not closed: {plural(len(faults), 'session')}: {faults[0]}")
        if self._calls.n_late:
            notes.append(
                f"{plural(self._calls.n_late, 'call')} did not end at the time limit "
                f"of {self._limit_s:g} s and continued in the background "
                f"({self._calls.n_stuck} still running)"
            )
        if self._calls.traces is not None:
            notes += self._calls.traces.notes
        return tuple(f"{self.label}: {note}" for note in notes)

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer all requests, in the order of the replies; ``ModelError`` if all
        concurrent calls are beyond the time limit."""
        if not self._background.is_running:
            self._background.run(self._calls.open())
        yield from self._answers(requests, range(len(requests)), self._concurrency)

    def end(self, requests: Sequence[Request]) -> None:
        """Close the sessions of a complete document."""
        if self._sessions is not None and self._background.is_running:
            ending = self._background.start(self._sessions.end(requests))
            self._ending = {one for one in self._ending if not one.done()} | {ending}

    def close(self) -> None:
        """Close open sessions and cancel running coroutines; threads still running
        end with the process."""
        if self._sessions is not None and self._background.is_running:
            with suppress(TimeoutError):
                wait(self._ending, _SESSIONS_S)
                self._background.start(self._sessions.close()).result(_SESSIONS_S)
        with suppress(TimeoutError):
            self._background.close(self._calls.close, _CLOSE_S)

    async def _one(self, position: int, request: Request) -> tuple[int, Response]:
        if not isinstance(request, Generate):
            return position, Response(error=NO_SCORES)
        if dict(request.options).get(GRAMMAR) and not self._takes_request:
            return position, Response(
                error=f"the request has a grammar, and {self.label} does not take it\n"
                "  fix: add the parameter request, and follow request.options"
            )
        attempt, reason = 0, ""
        while True:
            attempt += 1
            try:
                async with self._cap.request(0.0) as payment:
                    outcome, took_s = await self._called(request, reason)
                    payment.cost = cost_of(outcome.value)
            except SpendCapError as error:
                return position, Response(error=str(error), finish=UNSENT)
            if outcome.error is None:
                return position, self._response(outcome.value, request, took_s)
            reason = retry_reason(outcome.error)
            if not reason or attempt > self._retries:
                return position, Response(error=self._error(outcome.error, attempt))
            await pause(self._backoff.pause(attempt, self._random))

    async def _called(
        self, request: Generate, retry_reason: str
    ) -> tuple[CallOutcome, float]:
        """The outcome of a call, and how long it took."""
        self._usage["requests"] += 1
        if retry_reason:
            self._retried[retry_reason] += 1
        self._timings.began()
        began = time.perf_counter()
        try:
            outcome = await self._calls.call(request)
        finally:
            self._timings.ended()
        took_s = time.perf_counter() - began
        if self._sessions is not None:
            took_s -= self._sessions.restored_s.pop(request, 0.0)
        return outcome, took_s

    def _error(self, error: BaseException, attempts: int) -> str:
        if isinstance(error, CallTimeLimitError):
            return (
                f"{self.label} did not return within the time limit of "
                f"{self._limit_s:g} s\n  fix: raise time_limit"
            )
        text = f"{self.label}: {error_text(error, code_owner(self._function))}"
        return f"{text} ({attempts} attempts)" if attempts > 1 else text

    def _gave(self, given: str) -> str:
        return f"{self.label} returned {given}"

    def _response(self, value: object, request: Generate, took_s: float) -> Response:
        """The response in a return value; an error for a value of another type."""
        try:
            if isinstance(value, TracedValue):
                value = response_of(value)
            value = response_in(value)
        except SpanError as error:
            return Response(error=f"{self.label}: {error}")
        except DocumentError as error:
            return Response(error=self._gave(str(error)))
        if value.error:
            return value
        n_tokens = count_of(value.n_tokens)
        self._usage["completion_tokens"] += n_tokens
        self._timings.replied(took_s, n_tokens)
        found = replace(
            value,
            latency_s=value.latency_s or took_s,
            elapsed_s=value.elapsed_s or took_s / self._concurrency,
        )
        if not isinstance(found.text, str):
            return found  # the check of all responses reports it
        text = found.text
        for stop in request.stop:
            text = text.split(stop)[0] if stop else text
        return found if text == found.text else replace(found, text=text, finish="stop")


def _check_limits(
    concurrency: object, time_limit: object, retries: object, max_requests: object
) -> None:
    for name, value, least in (
        ("concurrency", concurrency, 1),
        ("retries", retries, 0),
        ("max_requests", max_requests, 0),
    ):
        if type(value) is not int or value < least:
            fix = f"use a whole number from {least}"
            raise OptionError(f"the python model's {name} is {value!r}; {fix}")
    is_number = isinstance(time_limit, int | float) and type(time_limit) is not bool
    if not is_number or not 0 < float(str(time_limit)) < math.inf:
        raise OptionError(
            f"the python model's time_limit is {time_limit!r}; use seconds, more than 0"
        )


def cost_of(value: object) -> float | None:
    """The cost in a return value; ``None`` if it is unknown."""
    if isinstance(value, TracedValue):
        value = value.value
    is_mapping = isinstance(value, Mapping)
    cost = value.get("cost") if is_mapping else getattr(value, "cost", None)  # type: ignore[attr-defined]
    return cost if is_finite(cost) and cost >= 0 else None


def retry_reason(error: BaseException) -> str:
    """The status or kind of an error after which a retry may succeed, or ""."""
    if not isinstance(error, Exception) or isinstance(error, CallTimeLimitError):
        return ""
    for one in _causes(error):
        status = _status(one)
        if is_transient(status):
            return str(status)
        if status:
            return ""
        for kind in type(one).__mro__:
            if kind.__name__.endswith(_TRANSIENT):
                return "timeout" if "Timeout" in kind.__name__ else "no connection"
    return ""


def _status(error: BaseException) -> int:
    """The HTTP status of an error, 0 if it has none."""
    response = getattr(error, "response", None)
    for owner in (error, response):
        for name in ("status_code", "code", "status"):
            status = getattr(owner, name, None)
            if type(status) is int and 400 <= status <= 599:
                return status
    return 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and the errors that it was explicitly raised from."""
    seen: set[int] = set()
    current: object = error
    while isinstance(current, BaseException) and id(current) not in seen:
        seen.add(id(current))
        yield current
        reason = getattr(current, "reason", None)  # urllib's URLError
        current = current.__cause__ or (
            reason if isinstance(reason, BaseException) else None
        )
