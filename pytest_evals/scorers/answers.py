"""Scorers of generated answers: comparisons with a text, a pattern or a schema, and
custom functions.

A scorer maps an answer and its case to a :class:`~pytest_evals.core.record.Score`. Its
name is the name of the metric, which is the mean over all cases.
"""

from __future__ import annotations

import json as json_library
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.errors import (
    DocumentError,
    EvalsError,
    MissingExtraError,
    Place,
    abbreviated,
)
from pytest_evals.limits.patterns import compiled
from pytest_evals.scorers.arguments import checked_arguments
from pytest_evals.scorers.extract import Extraction
from pytest_evals.scorers.json_answers import (
    no_constant,
    schema_file,
    validator,
    without_fence,
)
from pytest_evals.scorers.templates import ScorerTemplate

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerScorer:
    """A scorer with its name and settings."""

    name: str
    score: Callable[[Any, Case], Score]
    """Answer and case → score. Raises ``DocumentError`` for a case that cannot be
    scored."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """JSON values that determine the scores; part of the task's hash."""
    limits: tuple[float, float] | None = (0.0, 1.0)
    """Smallest and largest value; ``None`` if unknown."""
    is_graded: bool = False  # whether a score may lie between 0 and 1
    templates: tuple[ScorerTemplate, ...] = ()
    check: Callable[[Case], object] | None = None
    """Checks a case before the run; raises ``EvalsError``."""
    is_trivial: Callable[[Case], bool] | None = None
    """Whether every answer to a case is correct, or none if inverted."""
    extract: Extraction | None = None
    """The part of an answer that is scored; ``None`` for that of the eval."""
    reads_response: bool = False
    """Whether ``score`` gets the whole response instead of its text."""

    def __call__(self, answer: str | Response, case: Case) -> Score:
        """Return the score under this scorer's name."""
        given: Any = answer
        if self.reads_response and isinstance(given, str):
            given = Response(text=given)
        elif not self.reads_response and isinstance(given, Response):
            given = given.text
        return replace(self.score(given, case), metric=self.name)

    def __invert__(self) -> AnswerScorer:
        """Return the opposite scorer, ``not_NAME``: 1 where this one gives 0."""
        return replace(
            self,
            name=f"not_{self.name}",
            score=partial(_opposite, self),
            settings={"not": dict(self.settings)},
        )


@checked_arguments
def exact(
    *, ignore_case: bool = False, ignore_punctuation: bool = False, name: str = "exact"
) -> AnswerScorer:
    """Whether the answer equals the target, or one of several; surrounding whitespace
    is ignored."""

    def normalized(text: str) -> str:
        text = text.translate(_PUNCTUATION) if ignore_punctuation else text
        return (text.casefold() if ignore_case else text).strip()

    def score(answer: str, case: Case) -> Score:
        equal = normalized(answer) in map(normalized, targets_of(case))
        return binary(equal, "", answer.strip())

    settings = {"ignore_case": ignore_case, "ignore_punctuation": ignore_punctuation}
    return AnswerScorer(
        name=name, score=score, settings={"exact": settings}, check=targets_of
    )


@checked_arguments
def contains(
    text: str | None = None,
    *,
    any_of: Sequence[str] = (),
    all_of: Sequence[str] = (),
    ignore_case: bool = False,
    name: str = "contains",
) -> AnswerScorer:
    """Whether the answer contains a text (the target by default), one of ``any_of``,
    and each of ``all_of``; a template of a list is replaced by its items."""
    alone = None
    if text is not None:
        alone = ScorerTemplate(f"{name}: text", text, has_items=False)
    every = [ScorerTemplate(f"{name}: all_of", one) for one in all_of]
    either = [ScorerTemplate(f"{name}: any_of", one) for one in any_of]

    folded = str.casefold if ignore_case else str

    def texts(case: Case) -> tuple[list[str], list[str]]:
        needed = [text for one in every for text in one.texts(case)]
        accepted = [text for one in either for text in one.texts(case)]
        if alone is not None:
            needed += alone.texts(case)
        if not needed and not accepted:
            accepted = targets_of(case)
        return needed, accepted

    def is_trivial(case: Case) -> bool:
        needed, accepted = texts(case)
        return not any(needed) and (not accepted or "" in accepted)

    def score(answer: str, case: Case) -> Score:
        needed, accepted = texts(case)
        given = folded(answer)
        missing = [one for one in needed if folded(one) not in given]
        if missing:
            return binary(False, f"does not contain {_listed(missing)}", answer)
        found = not accepted or any(folded(one) in given for one in accepted)
        return binary(found, f"does not contain {_listed(accepted)}", answer)

    settings = {
        "text": text,
        "any_of": [*any_of],
        "all_of": [*all_of],
        "ignore_case": ignore_case,
    }
    templates = (*every, *either, *([alone] if alone else []))
    return AnswerScorer(
        name=name,
        score=score,
        settings={"contains": settings},
        templates=templates,
        check=None if templates else targets_of,
        is_trivial=is_trivial,
    )


@checked_arguments
def starts_with(
    text: str | None = None, *, ignore_case: bool = False, name: str = "starts_with"
) -> AnswerScorer:
    """Whether the answer starts with a text, by default the target; leading whitespace
    is ignored."""
    given = None if text is None else ScorerTemplate(f"{name}: text", text)

    def texts(case: Case) -> list[str]:
        return targets_of(case) if given is None else given.texts(case)

    def score(answer: str, case: Case) -> Score:
        accepted = texts(case)
        fold = str.casefold if ignore_case else str
        found = fold(answer.lstrip()).startswith(tuple(map(fold, accepted)))
        return binary(found, f"does not start with {_listed(accepted)}", answer)

    return AnswerScorer(
        name=name,
        score=score,
        settings={"starts_with": {"text": text, "ignore_case": ignore_case}},
        templates=() if given is None else (given,),
        check=targets_of if given is None else None,
        is_trivial=lambda case: "" in texts(case),
    )


@checked_arguments
def regex(
    pattern: str, *, group: int | None = None, name: str = "regex"
) -> AnswerScorer:
    """Whether a pattern matches anywhere in the answer.

    ``pattern``: a Python regular expression. ``group``: compare this group of the last
    match with the target; 0 is the whole match. Without it, any match is correct.
    Raises EvalsError if the pattern is invalid, or has no such group."""
    try:
        expression = compiled(pattern)
    except re.error as error:
        raise EvalsError(f"regex: invalid pattern {pattern!r}: {error}") from None
    if group is not None and not 0 <= group <= expression.regex.groups:
        raise EvalsError(f"regex: the pattern {pattern!r} has no group {group}")

    def score(answer: str, case: Case) -> Score:
        matches = expression.matches(answer)
        if not matches:
            return binary(False, f"does not match {pattern!r}", answer)
        start, end, groups = matches[-1]
        found = groups[group - 1] if group else answer[start:end]
        if group is None:
            return binary(True, "", found)
        found, targets = (found or "").strip(), targets_of(case)
        equal = found in [one.strip() for one in targets]
        return binary(equal, f"matched {found!r}, expected {_listed(targets)}", found)

    matches_all = group is None and _matches_all(expression.regex)
    return AnswerScorer(
        name=name,
        score=score,
        settings={"regex": {"pattern": pattern, "group": group}},
        check=None if group is None else targets_of,
        is_trivial=lambda case: matches_all,
    )


_CONDITIONS = re.compile(r"[$^]|\\[AbBZ]|\(\?(?!:|P<)")
"""Parts of patterns that depend on the text around a match."""


def _matches_all(pattern: re.Pattern[str]) -> bool:
    """Whether a pattern matches in every text, since it matches an empty one."""
    is_line = pattern.pattern.removeprefix("^").removesuffix("$") == ".*"
    is_free = _CONDITIONS.search(pattern.pattern) is None
    return is_line or (is_free and pattern.fullmatch("") is not None)


@checked_arguments
def json(
    schema: Mapping[str, Any] | str | Path | None = None, *, name: str = "json"
) -> AnswerScorer:
    """Whether the answer is valid JSON, and valid under a JSON Schema if one is given.

    The answer may be inside one Markdown code fence. ``schema``: the schema, or the
    path of a JSON file with it. Raises MissingExtraError if jsonschema is not
    installed, EvalsError if the schema cannot be read or is invalid."""
    file = ""
    if isinstance(schema, str | Path):
        file, schema = str(Place(Path(schema))), schema_file(Path(schema))
    fault_of = None if schema is None else validator(schema, file)

    def score(answer: str, case: Case) -> Score:
        text = without_fence(answer)
        try:
            value = json_library.loads(text, parse_constant=no_constant)
        except (ValueError, RecursionError) as error:
            return binary(False, f"invalid JSON: {error}", answer)
        fault = fault_of(value) if fault_of is not None else ""
        return binary(not fault, f"invalid under the schema: {fault}", text)

    return AnswerScorer(name=name, score=score, settings={"json": {"schema": schema}})


@checked_arguments
def similar(
    *, threshold: float = 0.8, ignore_case: bool = True, name: str = "similar"
) -> AnswerScorer:
    """Similarity of answer and target by edit distance, from 0 to 1: 1 minus the
    Levenshtein distance over the length of the longer text.

    Args:
        threshold: A case is correct from this similarity on.
        ignore_case: Whether upper and lower case count as equal.
        name: Name of the metric, whose value is the mean similarity.

    Raises MissingExtraError if rapidfuzz is not installed.
    """
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise MissingExtraError("similar", "rapidfuzz", "metrics") from error
    if not 0 < threshold <= 1:
        message = f"{name}: threshold is {threshold}, not above 0 and at most 1"
        raise EvalsError(f"{message}\n  fix: threshold: 0.8")

    def folded(text: str) -> str:
        return (text.casefold() if ignore_case else text).strip()

    def score(answer: str, case: Case) -> Score:
        value = max(
            Levenshtein.normalized_similarity(folded(answer), folded(one))
            for one in targets_of(case)
        )
        return Score(
            metric="",
            value=value,
            correct=value >= threshold,
            answer=answer.strip(),
            explanation=f"similarity {value:.2f}, threshold {threshold:g}",
        )

    return AnswerScorer(
        name=name,
        score=score,
        settings={"similar": {"threshold": threshold, "ignore_case": ignore_case}},
        check=targets_of,
        is_graded=True,
    )


def targets_of(case: Case) -> list[str]:
    """Return the accepted answers of a case. Raises DocumentError if it has no target,
    or one that is not text or a number."""
    for name in _TARGETS if case.target is None else ():
        if name in case.row:
            message = f"the case has no target, and its row has {name!r}"
            raise DocumentError(f"{message}\n  fix: call it target")
    values = case.target if isinstance(case.target, list | tuple) else [case.target]
    if not values:
        raise DocumentError("the target is an empty list")
    return [_text(value) for value in values]


_TARGETS = ("expected", "expected_output", "answer", "reference", "ground_truth")
"""Columns that other programs have for the target."""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if value is None:
        raise DocumentError(
            "the case has no target\n  fix: set target, or use a scorer without one"
        )
    shown = json_library.dumps(value, default=repr)[:80]
    fix = "quote it" if isinstance(value, bool) else "give text or a list of texts"
    raise DocumentError(f"the target {shown} is not text\n  fix: {fix}")


def _opposite(scorer: AnswerScorer, given: Any, case: Case) -> Score:
    found = scorer.score(given, case)
    if found.unscored:
        return found
    if not isinstance(found.value, bool | int | float) or not 0 <= found.value <= 1:
        raise DocumentError(f"not: {scorer.name} returned {found.value!r}, not 0 to 1")
    correct = None if found.correct is None else not found.correct
    why = "" if correct else f"{scorer.name} is correct"
    return replace(found, value=1 - found.value, correct=correct, explanation=why)


def binary(correct: bool, fault: str, answer: str) -> Score:
    """Return the score of a right or wrong answer; ``fault`` is why it is wrong."""
    return Score(
        metric="",
        value=float(correct),
        correct=correct,
        answer=answer,
        explanation="" if correct else fault,
    )


def _listed(texts: Sequence[str]) -> str:
    return " or ".join(repr(abbreviated(one, _LONGEST_SHOWN)) for one in texts)
