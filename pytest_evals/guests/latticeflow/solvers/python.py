"""Python in a solver: ``run_solver`` and ``postprocess``.

A snippet runs again in each round, so randomness must not change its requests:
``random`` is seeded per sample and trial while it runs.
"""

from __future__ import annotations

import inspect
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Ask, Dialogue
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError
from pytest_evals.guests.latticeflow.prompts.items import unwrap
from pytest_evals.guests.latticeflow.prompts.output import (
    ModelResponse,
    SolverOutput,
    SolverTrace,
)
from pytest_evals.guests.latticeflow.prompts.trace import Trace
from pytest_evals.guests.latticeflow.snippets.snippet import (
    SnippetFunction,
    snippet_of,
)
from pytest_evals.guests.latticeflow.solvers.coroutines import (
    LazyCoroutine,
    SendRequest,
    drive,
)
from pytest_evals.guests.latticeflow.solvers.model_client import (
    ModelClient,
    Models,
    Sample,
    input_of,
)
from pytest_evals.guests.latticeflow.solvers.single_turn import Solver

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
    """The ``model`` argument of ``run_solver``."""

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
        own = self._sample if sample is None else sample
        return LazyCoroutine(lambda: self._predict(items, own, kwargs))

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


def read_python(section: Section, models: Models) -> Solver | None:
    """Return a solver that runs ``run_solver(sample, model, trace)``. Requests that it
    awaits concurrently form one round."""
    function = snippet_of(section, "run_solver_snippet", "run_solver")
    if function is None:
        return None
    client = models("")

    def solve(sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        seeded_random = _SeededRandom(sample, trial)

        async def start(ask: SendRequest) -> SolverOutput:
            trace, own = SolverTrace(), deepcopy(dict(sample))
            model = _Model(client, sample, trial, ask)
            result = function.raw()(own, model, trace)
            if inspect.isawaitable(result):
                result = await result
            if isinstance(result, Trace):
                return SolverOutput(result, trace.raw_outputs, trace.direct_ios)
            output = _as_output(trace if result is None else result)
            if output is None:
                what = f"must return the trace, not {type(result).__name__}"
                raise function.invalid_return(what, "return trace")
            return output

        @contextmanager
        def guarded() -> Iterator[None]:
            with seeded_random.active(), function.guarded():
                yield

        output: SolverOutput = yield from drive(start, guarded)
        return output

    return solve


def _as_output(result: Any) -> SolverOutput | None:
    """Return an output or a trace that a snippet built as output, else ``None``."""
    if isinstance(result, SolverTrace):
        return SolverOutput(result.trace, result.raw_outputs, result.direct_ios)
    return result if isinstance(result, SolverOutput) else None


class _SeededRandom:
    """State of :mod:`random` that is the same in every run; the process's own state is
    restored afterwards."""

    def __init__(self, sample: Sample, trial: int) -> None:
        seed = json.dumps([unwrap(sample), trial], sort_keys=True, default=str)
        self._state = random.Random(seed).getstate()

    @contextmanager
    def active(self) -> Iterator[None]:
        before = random.getstate()
        random.setstate(self._state)
        try:
            yield
        finally:
            self._state = random.getstate()
            random.setstate(before)


def read_postprocessor(section: Section) -> Postprocess | None:
    """Return the postprocessor of a solver's section, ``postprocess(sample,
    solver_output)``, which returns any number of rows; or ``None``."""
    inner = section.section("postprocessor")
    if inner is None:
        return None
    inner.one_of("type", "postprocessor", ("python",), "python")
    function = snippet_of(inner, "postprocess_snippet", "postprocess")
    inner.close("a postprocessor")
    if function is None:
        return None

    def rows(sample: Sample, output: SolverOutput) -> tuple[Row, ...]:
        return function.read(
            lambda given: _rows(given, function), deepcopy(dict(sample)), output
        )

    return rows


def _rows(result: Any, function: SnippetFunction) -> tuple[Row, ...]:
    fix = "return [(sample, solver_output)]"
    if not isinstance(result, list | tuple):
        raise function.invalid_return(f"must return a list, not {result!r:.80}", fix)
    rows = []
    for pair in result:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            what = f"must return pairs of sample and output, not {pair!r:.80}"
            raise function.invalid_return(what, fix)
        sample, output = pair
        if not isinstance(sample, Mapping):
            what = f"must return a mapping as sample, not {sample!r:.80}"
            raise function.invalid_return(what, fix)
        try:
            rows.append(Row(sample, _as_output(output) or SolverOutput(trace=output)))
        except DocumentError as error:
            what = f"must return a valid output: {error}"
            raise function.invalid_return(what) from None
    return tuple(rows)
