"""Python in a solver: ``run_solver`` and ``postprocess``; and the adapter from a
coroutine that awaits a model to a dialogue.

A snippet runs again in each round, so randomness must not change its requests:
``random`` is seeded per sample and trial while it runs. A coroutine runs in a separate
event loop, so that ``asyncio.gather`` and similar functions work. When that loop would
block while responses are missing, all pending requests form one round. Neither the
model's response time nor the code's own running time advances timers: the loop's clock
only advances while the loop waits, so that timers fire in the same order in every run.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import deepcopy
from functools import cached_property
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from pytest_evals.core.dialogue import Ask, Dialogue, Exchange, resumed
from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.prompts.items import Structured, unwrap
from pytest_evals.guests.latticeflow.prompts.output import (
    ModelResponse,
    SolverOutput,
    SolverTrace,
)
from pytest_evals.guests.latticeflow.prompts.trace import Trace
from pytest_evals.guests.latticeflow.snippets import no_running_loop, snippet_of
from pytest_evals.guests.latticeflow.solvers.model_client import (
    ModelClient,
    Models,
    Sample,
    Solver,
    input_of,
)

T = TypeVar("T")

SendRequest = Callable[[Ask], "asyncio.Future[Response]"]
"""Sends a request; the response resolves the future."""


def resume_from_start(
    start: Callable[[], Dialogue[T]], exchanges: Sequence[Exchange]
) -> Dialogue[T]:
    """Resume a dialogue that is started again in each round. An event loop holds file
    descriptors, so none may stay open for each of thousands of waiting samples."""
    known = [*exchanges]
    while True:
        dialogue = resumed(start(), known)
        try:
            asks = next(dialogue)
        except StopIteration as end:
            result: T = end.value
            return result
        dialogue.close()
        responses = yield asks
        for ask, response in zip(asks, responses, strict=True):
            known.append(Exchange(*ask, response))


def drive(
    start: Callable[[SendRequest], Coroutine[Any, Any, Any]],
    guarded: Callable[[], AbstractContextManager[None]],
) -> Dialogue[Any]:
    """Run the coroutine that ``start`` creates from a function which sends requests,
    and return its result. ``guarded`` blocks around it may convert exceptions."""
    selector = _Selector()
    runner = asyncio.Runner(loop_factory=lambda: _Loop(selector))
    loop, waiting = runner.get_loop(), selector.waiting

    def ask(one: Ask) -> asyncio.Future[Response]:
        future = loop.create_future()
        waiting.append((one, future))
        return future

    task: asyncio.Task[Any] | None = None
    try:
        while True:
            with guarded(), suppress(_IdleError):
                task = task or loop.create_task(start(ask))
                return loop.run_until_complete(task)
            pending = [pair for pair in waiting if not pair[1].done()]
            waiting.clear()
            responses = yield [one for one, _ in pending]
            for (_, future), response in zip(pending, responses, strict=True):
                future.set_result(response)
    finally:
        waiting.clear()
        loop.set_exception_handler(lambda *_: None)  # for tasks that are cancelled
        with no_running_loop():
            runner.close()
        loop.set_exception_handler(None)


class LazyCoroutine(Structured, Coroutine[Any, Any, Any]):
    """A coroutine that is created when it is first awaited. If a time limit prevents
    that, Python does not warn about a coroutine that was never awaited."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._make = make

    @cached_property
    def _coroutine(self) -> Coroutine[Any, Any, Any]:
        return self._make()

    def send(self, value: Any, /) -> Any:
        """Resume."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Resume with an exception."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Close."""
        if "_coroutine" in vars(self):
            self._coroutine.close()

    def __await__(self) -> Any:
        """Await the result."""
        return self._coroutine.__await__()


class _IdleError(BaseException):
    """No task can make progress."""


class _Selector(selectors.DefaultSelector):
    """Detects when a loop would block while responses are missing."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Ask, asyncio.Future[Response]]] = []
        self.waited_s = 0.0  # time that the loop has waited

    def select(self, timeout: float | None = None) -> Any:
        """Wait for timers, files and threads, unless responses are missing."""
        start = monotonic()
        events = super().select(0 if self.waiting else timeout)
        if self.waiting and not events and timeout != 0:
            raise _IdleError
        if timeout is None or (events and timeout > 0):
            self.waited_s += monotonic() - start
        else:
            self.waited_s += max(timeout, 0)
        return events


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock is the time that its selector has waited."""

    def __init__(self, selector: _Selector) -> None:
        self._clock = selector
        super().__init__(selector)

    def time(self) -> float:
        return self._clock.waited_s


_MOST_TRIALS = 10_000
"""Larger than any number of trials; separates repeats within a trial from other trials.
"""


class Row(NamedTuple):
    """A sample and an output to score."""

    sample: Sample
    output: SolverOutput


Postprocess = Callable[[Sample, SolverOutput], tuple[Row, ...]]
"""Returns the rows to score of an output."""


class _Model:
    def __init__(
        self, client: ModelClient, sample: Sample, trial: int, ask: SendRequest
    ) -> None:
        self._client, self._sample, self._trial, self._ask = client, sample, trial, ask
        self._counts = Counter[Ask]()

    def predict(
        self, items: Any, sample: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> LazyCoroutine:
        """Return an awaitable :class:`ModelResponse` for items of a trace, messages, or
        a whole input with ``messages``; ``kwargs`` such as ``temperature`` are passed
        on. Awaiting it raises ``DocumentError`` for an input that is not supported."""
        row = self._sample if sample is None else sample
        return LazyCoroutine(lambda: self._predict(items, row, kwargs))

    async def _predict(
        self, items: Any, sample: Sample, kwargs: Mapping[str, Any]
    ) -> ModelResponse:
        given = input_of(items)
        one = self._client.ask(given, sample, self._trial, kwargs)
        repeat = self._trial + self._counts[one] * _MOST_TRIALS
        self._counts[one] += 1
        if repeat != self._trial:
            one = self._client.ask(given, sample, repeat, kwargs)
        return self._client.read(await self._ask(one))


def read_python(section: Keys, models: Models) -> Solver:
    """Return a solver that runs ``run_solver(sample, model, trace)``. Requests that it
    awaits concurrently form one round."""
    function = snippet_of(section, "run_solver_snippet", "run_solver")
    client = models("")

    def solve(sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        seed = json.dumps([unwrap(sample), trial], sort_keys=True, default=str)
        state = random.Random(seed).getstate()

        async def start(ask: SendRequest) -> SolverOutput:
            trace, row = SolverTrace(), deepcopy(dict(sample))
            model = _Model(client, sample, trial, ask)
            result = function.raw()(row, model, trace)
            if inspect.isawaitable(result):
                result = await result
            if isinstance(result, Trace):
                return SolverOutput(result, trace.raw_outputs, trace.direct_ios)
            output = _as_output(trace if result is None else result)
            if output is None:
                message = f"must return the trace, not {type(result).__name__}"
                raise function.invalid_return(message, "return trace")
            return output

        @contextmanager
        def guarded() -> Iterator[None]:
            """Guard the code, with its own state of :mod:`random`."""
            nonlocal state
            before = random.getstate()
            random.setstate(state)
            try:
                with function.guarded():
                    yield
            finally:
                state = random.getstate()
                random.setstate(before)

        output: SolverOutput = yield from drive(start, guarded)
        return output

    return solve


def _as_output(result: Any) -> SolverOutput | None:
    if isinstance(result, SolverTrace):
        return SolverOutput(result.trace, result.raw_outputs, result.direct_ios)
    return result if isinstance(result, SolverOutput) else None


def read_postprocessor(section: Keys) -> Postprocess | None:
    """Return the postprocessor of a solver's section, ``postprocess(sample,
    solver_output)``, which returns any number of rows; or ``None``."""
    inner = section.section("postprocessor")
    if inner is None:
        return None
    inner.one_of("type", "postprocessor", ("python",), "python")
    function = snippet_of(inner, "postprocess_snippet", "postprocess")
    inner.close("a postprocessor")

    def read(result: Any) -> tuple[Row, ...]:
        fix = "return [(sample, solver_output)]"
        function.expect(isinstance(result, list | tuple), "a list", result, fix)
        rows = []
        for pair in result:
            is_pair = isinstance(pair, list | tuple) and len(pair) == 2
            function.expect(is_pair, "pairs of sample and output", pair, fix)
            sample, output = pair
            is_mapping = isinstance(sample, Mapping)
            function.expect(is_mapping, "a mapping as sample", sample, fix)
            try:
                output = _as_output(output) or SolverOutput(trace=output)
            except DocumentError as error:
                message = f"must return a valid output: {error}"
                raise function.invalid_return(message) from None
            rows.append(Row(sample, output))
        return tuple(rows)

    return lambda sample, output: function.read(read, deepcopy(dict(sample)), output)
