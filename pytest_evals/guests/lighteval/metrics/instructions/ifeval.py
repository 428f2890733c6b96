"""IFEval and IFBench: strict and loose accuracy of following instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError
from pytest_evals.guests.lighteval.metrics.instructions.checks import (
    INSTRUCTIONS,
    Check,
    is_followed,
)
from pytest_evals.guests.lighteval.metrics.instructions.ifbench.formats import (
    CUSTOM,
    FORMATS,
)
from pytest_evals.guests.lighteval.metrics.instructions.ifbench.words import (
    COUNTS,
    WORDS,
)
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

IFEVAL_NAMES = (
    "prompt_level_strict_acc",
    "inst_level_strict_acc",
    "prompt_level_loose_acc",
    "inst_level_loose_acc",
)
"""Names of the prompt-level and instruction-level numbers."""

IFBENCH: Mapping[str, Check] = {**COUNTS, **FORMATS, **CUSTOM, **WORDS}


@dataclass(frozen=True)
class IFEvalMetrics(SampleLevelComputation):
    """IFEval's four numbers for the first answer.

    ``doc.specific`` contains the instructions in the first of ``columns`` that exists,
    and in ``kwargs`` a mapping of arguments for each.
    """

    is_share: ClassVar[bool] = True
    checks: ClassVar[Mapping[str, Check]] = INSTRUCTIONS
    columns: ClassVar[tuple[str, str]] = ("instructions_id_list", "instruction_id_list")
    libraries: ClassVar[Libraries] = (
        ("langdetect", "langdetect", "metrics"),
        ("nltk", "nltk", "metrics"),
    )

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, Any]:
        """Compute the numbers by name.

        Raises:
            DocumentError: Instructions are missing or invalid.
        """
        answers = model_response.final_text
        if not answers:
            raise DocumentError("the response has no answer")
        instructions = list(_instructions(doc, self.columns))
        forms = list(_forms(answers[0]))
        strict, loose = [], []
        for name, kwargs in instructions:
            results = [is_followed(form, name, kwargs, self.checks) for form in forms]
            strict.append(results[0])
            loose.append(any(results))
        values = (int(all(strict)), strict, int(all(loose)), loose)
        return dict(zip(IFEVAL_NAMES, values, strict=True))


@dataclass(frozen=True)
class IFBenchMetrics(IFEvalMetrics):
    """The same numbers for the instructions of IFBench."""

    is_share = True
    checks = IFBENCH
    columns = ("instruction_id_list", "instructions_id_list")
    libraries = (
        ("emoji", "emoji", "metrics"),
        ("nltk", "nltk", "metrics"),
        ("syllapy", "syllapy", "metrics"),
    )


def _instructions(
    doc: Doc, columns: tuple[str, str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    specific = doc.specific or {}
    names = specific.get(columns[0], specific.get(columns[1]))
    kwargs = specific.get("kwargs")
    if not names or not isinstance(kwargs, list | tuple) or len(names) != len(kwargs):
        raise DocumentError(
            f"columns {columns[0]} and kwargs (or doc.specific) must be lists of equal "
            "length"
        )
    for name, given in zip(names, kwargs, strict=True):
        yield name, given or {}


def _forms(text: str) -> Iterator[str]:
    """Yield the answer, its variants without first line, last line and both, and all of
    these without asterisks."""
    lines = text.split("\n")
    forms = [text]
    forms += ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    yield from forms
    for form in forms:
        yield form.replace("*", "")
