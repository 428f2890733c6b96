"""LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): execution of generated programs
against tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.lighteval.code_execution.programs import (
    Cases,
    extract_code,
    passes,
)
from pytest_evals.scorers.lighteval.metric import SampleLevelComputation
from pytest_evals.scorers.lighteval.response import ModelResponse


@dataclass(frozen=True)
class CodegenMetric(SampleLevelComputation):
    """pass@1: the fraction of answers whose program passes all tests.

    Tests are in ``doc.specific``: lists ``inputs`` and ``outputs``, and ``fn_name``,
    the function to call; without it, answers are complete programs.

    Args:
        n: Number of answers to generate and score; ``None`` for all.
    """

    executes_answers: ClassVar[bool] = True

    n: int | None = None

    def __post_init__(self) -> None:
        """Validate ``n``."""
        if self.n is not None and (not isinstance(self.n, int) or self.n < 1):
            raise EvalsError(f"n must be a positive integer, not {self.n!r}")

    def num_samples(self) -> int | None:
        """Return the number of answers needed."""
        return self.n

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """Compute pass@1.

        Raises:
            DocumentError: There are too few answers, or tests are missing.
        """
        answers = model_response.final_text
        if len(answers) < (self.n or 1):
            raise DocumentError(
                f"expected at least {self.n or 1} answers, got {len(answers)}"
            )
        tests = _tests(doc)
        try:
            passed = [passes(extract_code(one), tests) for one in answers[: self.n]]
        except ValueError as error:
            what = f"arguments and results of {tests.function} must be JSON: {error}"
            raise DocumentError(what) from None
        return sum(passed) / len(passed)


def _tests(doc: Doc) -> Cases:
    specific = doc.specific or {}
    given = [specific.get(name) for name in ("inputs", "outputs")]
    inputs, outputs = (list(one) if isinstance(one, list) else [] for one in given)
    if not inputs or len(inputs) != len(outputs):
        raise DocumentError(
            "columns inputs and outputs (or doc.specific) must be lists of equal length"
        )
    return Cases(inputs=inputs, outputs=outputs, function=specific.get("fn_name"))
