"""Reads ``pass_through_solver``: a recorded trace in place of a model."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_evals.core.dialogue import Dialogue
from pytest_evals.data.calls import ColumnError, FieldError
from pytest_evals.dialects.latticeflow.prompts.output import SolverOutput
from pytest_evals.dialects.latticeflow.prompts.trace import Trace, trace_of
from pytest_evals.dialects.latticeflow.solvers.solver import Sample
from pytest_evals.dialects.latticeflow.solvers.template_fields import required_text
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError, Place, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceColumn:
    """A column with recorded traces."""

    name: str
    place: Place

    def read(self, sample: Sample) -> Trace:
        """Return the trace of a sample.

        Raises:
            DocumentError: The column is missing, or is not a trace.
        """
        if self.name not in sample:
            what = f"trace_column: {unknown_name('column', self.name, sample)}"
            raise ColumnError(what, self.place)
        try:
            return trace_of(sample[self.name])
        except DocumentError as error:
            raise FieldError(
                f"trace_column {self.name!r}: {error}", self.place
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassThroughSolver:
    """Returns the recorded trace as output."""

    column: TraceColumn

    def dialogue(self, sample: Sample, trial: int) -> Dialogue[SolverOutput]:
        """Return the output; sends no request."""
        yield from ()
        return SolverOutput(trace=self.column.read(sample))


def read_trace_column(section: Section) -> TraceColumn:
    """Return the column that a section names."""
    name = required_text(section, "trace_column", "trace")
    return TraceColumn(name=name, place=section.place("trace_column"))


def read_pass_through(section: Section) -> PassThroughSolver:
    """Return the solver; errors are added to the problems of the section."""
    return PassThroughSolver(column=read_trace_column(section))
