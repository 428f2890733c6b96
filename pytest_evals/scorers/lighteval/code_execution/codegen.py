"""LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): whether programs that a model
wrote pass the tests of their problem."""

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
    """pass@1: the share of a document's answers whose program passes all tests.

    Tests are in ``doc.specific``: lists ``inputs`` and ``outputs``, and in
    ``fn_name`` the function to call, unless the answer is a full program.

    Args:
        n: Number of answers to generate and score; ``None`` for all.
    """

    executes_answers: ClassVar[bool] = True

    n: int | None = None

    def __post_init__(self) -> None:
        """Check the number."""
        if self.n is not None and (not isinstance(self.n, int) or self.n < 1):
            raise EvalsError(f"n is a whole number from 1, not {self.n!r}")

    def num_samples(self) -> int | None:
        """Answers that it needs."""
        return self.n

    def measure(self, doc: Doc, model_response: ModelResponse) -> float:
        """From 0 to 1.

        Raises:
            DocumentError: There are too few answers, or no tests.
        """
        answers = model_response.final_text
        if len(answers) < (self.n or 1):
            raise DocumentError(
                f"{self.n or 1} answers are wanted and there are {len(answers)}"
            )
        tests = _tests(doc)
        try:
            passed = [passes(extract_code(one), tests) for one in answers[: self.n]]
        except ValueError as error:
            what = f"arguments and results of {tests.function} are JSON: {error}"
            raise DocumentError(what) from None
        return sum(passed) / len(passed)


def _tests(doc: Doc) -> Cases:
    specific = doc.specific or {}
    given = [specific.get(name) for name in ("inputs", "outputs")]
    inputs, outputs = (list(one) if isinstance(one, list) else [] for one in given)
    if not inputs or len(inputs) != len(outputs):
        raise DocumentError(
            "it needs lists inputs and outputs of one length, as columns of the row or "
            "in doc.specific"
        )
    return Cases(inputs=inputs, outputs=outputs, function=specific.get("fn_name"))
