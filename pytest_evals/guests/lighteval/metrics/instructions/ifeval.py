"""IFEval (Zhou et al. 2023, arXiv 2311.07911) and IFBench: strict and loose accuracy of
following instructions, and the checks for IFEval's 25 instructions, as in lighteval
0.13.0. Missing arguments are errors; lighteval draws them at random."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, unknown_name
from pytest_evals.guests.lighteval.metrics.instructions import formats
from pytest_evals.guests.lighteval.metrics.instructions import words as bench_words
from pytest_evals.guests.lighteval.metrics.normalizers import library, sentences, words
from pytest_evals.limits.patterns import compiled
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

Check = Callable[..., bool]
"""Function of an answer and the instruction's arguments that returns whether it is
followed."""

_CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_BULLETS = [compiled(text, re.MULTILINE) for text in (r"^\s*\*[^\*].*$", r"^\s*-.*$")]
_ENDS_A_WORD = ".,?!'\""


def _compared(n: int, relation: str, limit: float) -> bool:
    if relation not in ("less than", "at least"):
        raise DocumentError(
            f"a relation must be 'less than' or 'at least', not {relation!r}"
        )
    return n < limit if relation == "less than" else n >= limit


def _n_paragraphs(text: str, num_paragraphs: int) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", text)
    blank = [i for i, part in enumerate(parts) if not part.strip()]
    at_ends = {0, len(parts) - 1}
    return set(blank) <= at_ends and len(parts) - len(blank) == num_paragraphs


def _first_word(
    text: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
    parts = text.split("\n\n")
    n = sum(1 for part in parts if part.strip())
    if not 1 <= nth_paragraph <= n or not parts[nth_paragraph - 1].strip():
        return False
    word = parts[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    end = next((i for i, c in enumerate(word) if c in _ENDS_A_WORD), len(word))
    return n == num_paragraphs and word[:end].lower() == first_word.lower()


def _postscript(text: str, postscript_marker: str) -> bool:
    known = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    marker = known.get(postscript_marker, postscript_marker.lower())
    return compiled(rf"\s*{marker}.*$", re.MULTILINE).is_in(text.lower())


def _highlights(text: str, num_highlights: int) -> bool:
    # Both patterns match text between double asterisks, so it counts twice.
    single = re.findall(r"\*([^\n\*]*)\*", text)
    double = re.findall(r"\*\*([^\n\*]*)\*\*", text)
    return sum(1 for part in (*single, *double) if part.strip()) >= num_highlights


def _json(text: str) -> bool:
    text = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _two_responses(text: str) -> bool:
    parts = text.split("******")
    blank = {i for i, part in enumerate(parts) if not part.strip()}
    if not blank <= {0, len(parts) - 1}:
        return False
    kept = [part.strip() for i, part in enumerate(parts) if i not in blank]
    return len(kept) == 2 and kept[0] != kept[1]


def _detected(text: str) -> str | None:
    """Return langdetect's language with a fixed seed; ``None`` on failure."""
    errors = library("langdetect.lang_detect_exception", _LANGUAGE)
    detector = _factory().create()
    detector.append(text)
    try:
        found = str(detector.detect())
    except errors.LangDetectException:
        return None
    return None if found == "unknown" else found


_LANGUAGE = "an instruction about language"


@cache
def _factory() -> Any:
    detector_factory = library("langdetect.detector_factory", _LANGUAGE)
    factory = detector_factory.DetectorFactory()
    factory.load_profile(detector_factory.PROFILES_DIRECTORY)
    factory.seed = 0
    return factory


INSTRUCTIONS: Mapping[str, Check] = {
    "change_case:capital_word_frequency": (
        lambda text, capital_frequency, capital_relation: _compared(
            sum(map(str.isupper, words(text))), capital_relation, capital_frequency
        )
    ),
    "change_case:english_capital": (
        lambda text: text.isupper() and _detected(text) in (None, "en")
    ),
    "change_case:english_lowercase": (
        lambda text: text.islower() and _detected(text) in (None, "en")
    ),
    "combination:repeat_prompt": lambda text, prompt_to_repeat: (
        text.strip().lower().startswith(prompt_to_repeat.strip().lower())
    ),
    "combination:two_responses": _two_responses,
    "detectable_content:number_placeholders": lambda text, num_placeholders: (
        len(compiled(r"\[.*?\]").findall(text)) >= num_placeholders
    ),
    "detectable_content:postscript": _postscript,
    "detectable_format:constrained_response": (
        lambda text: any(option in text for option in _CONSTRAINED)
    ),
    "detectable_format:json_format": _json,
    "detectable_format:multiple_sections": lambda text, section_spliter, num_sections: (
        len(compiled(rf"\s?{section_spliter}\s?\d+\s?").split(text)) > num_sections
    ),
    "detectable_format:number_bullet_lists": lambda text, num_bullets: (
        sum(len(bullet.findall(text)) for bullet in _BULLETS) == num_bullets
    ),
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:title": lambda text: any(
        title.lstrip("<").rstrip(">").strip()
        for title in compiled(r"<<[^\n]+>>").findall(text)
    ),
    "keywords:existence": lambda text, keywords: all(
        compiled(word, re.IGNORECASE).is_in(text) for word in keywords
    ),
    "keywords:forbidden_words": lambda text, forbidden_words: (
        not any(
            compiled(rf"\b{word}\b", re.IGNORECASE).is_in(text)
            for word in forbidden_words
        )
    ),
    "keywords:frequency": lambda text, keyword, frequency, relation: _compared(
        len(compiled(keyword, re.IGNORECASE).findall(text)), relation, frequency
    ),
    "keywords:letter_frequency": lambda text, letter, let_frequency, let_relation: (
        _compared(Counter(text.lower())[letter.lower()], let_relation, let_frequency)
    ),
    "language:response_language": (
        lambda text, language: _detected(text) in (None, language)
    ),
    "length_constraints:nth_paragraph_first_word": _first_word,
    "length_constraints:number_paragraphs": _n_paragraphs,
    "length_constraints:number_sentences": lambda text, num_sentences, relation: (
        _compared(len(sentences(text)), relation, num_sentences)
    ),
    "length_constraints:number_words": lambda text, num_words, relation: _compared(
        len(re.findall(r"\w+", text)), relation, num_words
    ),
    "punctuation:no_comma": lambda text: "," not in text,
    "startend:end_checker": lambda text, end_phrase: (
        text.strip().strip('"').lower().endswith(end_phrase.strip().lower())
    ),
    "startend:quotation": lambda text: (
        re.fullmatch('".*"', text.strip(), re.DOTALL) is not None
    ),
}

IFBENCH: Mapping[str, Check] = {
    **bench_words.COUNTS,
    **formats.FORMATS,
    **formats.CUSTOM,
    **bench_words.WORDS,
}


def is_followed(
    text: str,
    instruction: str,
    arguments: Mapping[str, Any],
    checks: Mapping[str, Check] = INSTRUCTIONS,
) -> bool:
    """Return whether an answer follows an instruction; blank ones never do.

    Raises:
        DocumentError: The instruction is unknown, or an argument is missing.
        MissingExtraError: A required library is not installed.
    """
    if instruction not in checks:
        raise DocumentError(unknown_name("instruction", instruction, checks))
    check = checks[instruction]
    _, *names = signature(check).parameters
    for name in names:
        if arguments.get(name) is None:
            raise DocumentError(f"the instruction {instruction!r} needs {name!r}")
    return bool(text.strip()) and check(text, **{n: arguments[n] for n in names})


IFEVAL_NAMES = (
    "prompt_level_strict_acc",
    "inst_level_strict_acc",
    "prompt_level_loose_acc",
    "inst_level_loose_acc",
)
"""Names of the prompt-level and instruction-level numbers."""


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
        """Compute the numbers by name."""
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
