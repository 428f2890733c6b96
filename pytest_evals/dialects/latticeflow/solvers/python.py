"""Python in a solver: ``run_solver`` and ``postprocess``.

A snippet is run again for each round, so that chance must not change what it asks:
``random`` is seeded for each sample and trial while it runs.
"""

from __future__ import annotations

import inspect
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Ask, Dialogue
from pytest_evals.dialects.latticeflow.prompts.message_types import plain
from pytest_evals.dialects.latticeflow.prompts.output import (
    ModelResponse,
    SolverOutput,
    SolverTrace,
)
from pytest_evals.dialects.latticeflow.prompts.trace import Trace
from pytest_evals.dialects.latticeflow.snippets.snippet import (
    SnippetFunction,
    snippet_of,
)
from pytest_evals.dialects.latticeflow.solvers.coroutines import (
    Asker,
    Asking,
    driven,
)
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.solver_model import SolverChain, input_of
from pytest_evals.dialects.latticeflow.solvers.template_fields import Lines
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError

_MOST_TRIALS = 10_000
"""More than anybody has: tells apart the repeats of a trial from other trials."""


class Row(NamedTuple):
    """What is scored: a sample and an output."""

    sample: Sample
    output: SolverOutput


class _Model:
    """What ``run_solver`` gets as ``model``."""

    def __init__(
        self, line: SolverChain, sample: Sample, trial: int, ask: Asker
    ) -> None:
        self._line, self._sample, self._trial, self._ask = line, sample, trial, ask
        self._asked = Counter[Ask]()

    def predict(
        self, items: Any, sample: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Asking:
        """What the model gives for items, or for a whole model input.

        Args:
            items: Items of a trace, messages, or an input with ``messages``.
            sample: What it is about, if not the sample at hand.
            kwargs: Further arguments, such as ``temperature``.

        Returns:
            To be awaited: a :class:`ModelResponse`.

        Raises:
            DocumentError: The model cannot take it; when it is awaited.
        """
        about = self._sample if sample is None else sample
        return Asking(lambda: self._predict(items, about, kwargs))

    async def _predict(
        self, items: Any, about: Mapping[str, Any], kwargs: Mapping[str, Any]
    ) -> ModelResponse:
        given = input_of(items)
        one = self._line.ask(given, about, self._trial, kwargs)
        times = self._asked[one]
        self._asked[one] += 1
        if times:
            repeat = self._trial + times * _MOST_TRIALS
            one = self._line.ask(given, about, repeat, kwargs)
        return self._line.read(await self._ask(one))


@dataclass(frozen=True, slots=True)
class PythonSolver:
    """``run_solver(sample, model, trace)``."""

    line: SolverChain
    function: SnippetFunction

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Run it; requests that it awaits at the same time are one round."""
        chance = _Chance(sample, trial)

        async def start(ask: Asker) -> SolverOutput:
            trace = SolverTrace()
            own = deepcopy(dict(sample))
            model = _Model(self.line, sample, trial, ask)
            given = self.function.raw()(own, model, trace)
            if inspect.isawaitable(given):
                given = await given
            return self._output(trace if given is None else given, trace)

        @contextmanager
        def guarded() -> Iterator[None]:
            with chance.taken(), self.function.guarded():
                yield

        output: SolverOutput = yield from driven(start, guarded)
        return output

    def _output(self, given: Any, trace: SolverTrace) -> SolverOutput:
        if isinstance(given, SolverOutput):
            return given
        if isinstance(given, SolverTrace):
            return SolverOutput(given.trace, given.raw_outputs, given.direct_ios)
        if isinstance(given, Trace):
            return SolverOutput(given, trace.raw_outputs, trace.direct_ios)
        kind = type(given).__name__
        raise self.function.refused(f"returns the trace, not {kind}", "return trace")


class _Chance:
    """Draws of :mod:`random` that are the same each time; the process's own go on as if
    nothing had been."""

    def __init__(self, sample: Sample, trial: int) -> None:
        seed = json.dumps([plain(sample), trial], sort_keys=True, default=str)
        self._state = random.Random(seed).getstate()

    @contextmanager
    def taken(self) -> Iterator[None]:
        before = random.getstate()
        random.setstate(self._state)
        try:
            yield
        finally:
            self._state = random.getstate()
            random.setstate(before)


@dataclass(frozen=True, slots=True)
class Postprocessor:
    """``postprocess(sample, solver_output)``: one output becomes any number of rows."""

    function: SnippetFunction

    def rows(self, sample: Sample, output: SolverOutput) -> tuple[Row, ...]:
        """What is scored instead.

        Raises:
            DocumentError: It fails, or returns something else.
        """
        return self.function.read(self._read, deepcopy(dict(sample)), output)

    def _read(self, given: Any) -> tuple[Row, ...]:
        fix = "return [(sample, solver_output)]"
        if not isinstance(given, list | tuple):
            raise self.function.refused(f"returns a list, not {given!r:.80}", fix)
        rows = []
        for one in given:
            if not isinstance(one, list | tuple) or len(one) != 2:
                what = f"returns pairs of sample and output, not {one!r:.80}"
                raise self.function.refused(what, fix)
            row, found = one
            if not isinstance(row, Mapping):
                raise self.function.refused(f"returns a sample {row!r:.80}", fix)
            rows.append(Row(row, self._output(found)))
        return tuple(rows)

    def _output(self, found: Any) -> SolverOutput:
        if isinstance(found, SolverOutput):
            return found
        if isinstance(found, SolverTrace):
            return SolverOutput(found.trace, found.raw_outputs, found.direct_ios)
        try:
            return SolverOutput(trace=found)
        except DocumentError as error:
            what = f"returns an output that is none: {error}"
            raise self.function.refused(what) from None


def read_python(section: Section, lines: Lines) -> PythonSolver | None:
    """The solver of a section; what is wrong with it are problems of the file."""
    function = snippet_of(section, "run_solver_snippet", "run_solver")
    return None if function is None else PythonSolver(lines(""), function)


def read_postprocessor(section: Section) -> Postprocessor | None:
    """The postprocessor of a solver's section, ``None`` if there is none."""
    inner = section.section("postprocessor")
    if inner is None:
        return None
    inner.one_of("type", "postprocessor", ("python",), "python")
    function = snippet_of(inner, "postprocess_snippet", "postprocess")
    inner.close("a postprocessor")
    return None if function is None else Postprocessor(function)
