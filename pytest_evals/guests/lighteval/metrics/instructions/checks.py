"""Checks for IFEval's 25 instructions (Zhou et al. 2023, arXiv 2311.07911), as in
lighteval 0.13.0. Missing arguments are errors; lighteval draws them at random."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pytest_evals.errors import DocumentError, MissingExtraError, unknown_name
from pytest_evals.guests.lighteval.metrics.normalizers import sentences, words
from pytest_evals.limits.patterns import compiled

Check = Callable[..., bool]
"""Function of an answer and the instruction's arguments that returns whether it is
followed."""

_CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_ENDS_A_WORD = ".,?!'\""


def _compared(n: int, relation: str, limit: float) -> bool:
    if relation not in ("less than", "at least"):
        raise DocumentError(
            f"a relation must be 'less than' or 'at least', not {relation!r}"
        )
    return n < limit if relation == "less than" else n >= limit


def _existence(text: str, *, keywords: list[str]) -> bool:
    return all(compiled(word, re.IGNORECASE).is_in(text) for word in keywords)


def _frequency(text: str, *, keyword: str, frequency: int, relation: str) -> bool:
    n = len(compiled(keyword, re.IGNORECASE).findall(text))
    return _compared(n, relation, frequency)


def _forbidden(text: str, *, forbidden_words: list[str]) -> bool:
    return not any(
        compiled(rf"\b{word}\b", re.IGNORECASE).is_in(text) for word in forbidden_words
    )


def _letters(text: str, *, letter: str, let_frequency: int, let_relation: str) -> bool:
    n = Counter(text.lower())[letter.lower()]
    return _compared(n, let_relation, let_frequency)


def _language(text: str, *, language: str) -> bool:
    found = _detected(text)
    return found is None or found == language


def _n_sentences(text: str, *, num_sentences: int, relation: str) -> bool:
    return _compared(len(sentences(text)), relation, num_sentences)


def _n_paragraphs(text: str, *, num_paragraphs: int) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", text)
    blank = [i for i, part in enumerate(parts) if not part.strip()]
    at_ends = {0, len(parts) - 1}
    return set(blank) <= at_ends and len(parts) - len(blank) == num_paragraphs


def _n_words(text: str, *, num_words: int, relation: str) -> bool:
    return _compared(len(re.findall(r"\w+", text)), relation, num_words)


def _first_word(
    text: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
    parts = text.split("\n\n")
    n = sum(1 for part in parts if part.strip())
    if not 1 <= nth_paragraph <= n or not parts[nth_paragraph - 1].strip():
        return False
    word = parts[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    end = next((i for i, c in enumerate(word) if c in _ENDS_A_WORD), len(word))
    return n == num_paragraphs and word[:end].lower() == first_word.lower()


def _placeholders(text: str, *, num_placeholders: int) -> bool:
    return len(compiled(r"\[.*?\]").findall(text)) >= num_placeholders


def _postscript(text: str, *, postscript_marker: str) -> bool:
    known = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    marker = known.get(postscript_marker, postscript_marker.lower())
    return compiled(rf"\s*{marker}.*$", re.MULTILINE).is_in(text.lower())


def _bullets(text: str, *, num_bullets: int) -> bool:
    stars = compiled(r"^\s*\*[^\*].*$", re.MULTILINE).findall(text)
    dashes = compiled(r"^\s*-.*$", re.MULTILINE).findall(text)
    return len(stars) + len(dashes) == num_bullets


def _constrained(text: str) -> bool:
    return any(option in text for option in _CONSTRAINED)


def _highlights(text: str, *, num_highlights: int) -> bool:
    # Both patterns match text between double asterisks, so it counts twice.
    single = re.findall(r"\*([^\n\*]*)\*", text)
    double = re.findall(r"\*\*([^\n\*]*)\*\*", text)
    n = sum(1 for part in (*single, *double) if part.strip())
    return n >= num_highlights


def _sections(text: str, *, section_spliter: str, num_sections: int) -> bool:
    parts = compiled(rf"\s?{section_spliter}\s?\d+\s?").split(text)
    return len(parts) - 1 >= num_sections


def _json(text: str) -> bool:
    text = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str) -> bool:
    found = compiled(r"<<[^\n]+>>").findall(text)
    return any(title.lstrip("<").rstrip(">").strip() for title in found)


def _two_responses(text: str) -> bool:
    parts = text.split("******")
    blank = {i for i, part in enumerate(parts) if not part.strip()}
    if not blank <= {0, len(parts) - 1}:
        return False
    kept = [part.strip() for i, part in enumerate(parts) if i not in blank]
    return len(kept) == 2 and kept[0] != kept[1]


def _repeats_prompt(text: str, *, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def _ends(text: str, *, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def _quoted(text: str) -> bool:
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _capital_words(text: str, *, capital_frequency: int, capital_relation: str) -> bool:
    n = sum(1 for word in words(text) if word.isupper())
    return _compared(n, capital_relation, capital_frequency)


def _upper(text: str) -> bool:
    return text.isupper() and _detected(text) in (None, "en")


def _lower(text: str) -> bool:
    return text.islower() and _detected(text) in (None, "en")


def _no_comma(text: str) -> bool:
    return "," not in text


INSTRUCTIONS: Mapping[str, Check] = {
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": _upper,
    "change_case:english_lowercase": _lower,
    "combination:repeat_prompt": _repeats_prompt,
    "combination:two_responses": _two_responses,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:constrained_response": _constrained,
    "detectable_format:json_format": _json,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:title": _title,
    "keywords:existence": _existence,
    "keywords:forbidden_words": _forbidden,
    "keywords:frequency": _frequency,
    "keywords:letter_frequency": _letters,
    "language:response_language": _language,
    "length_constraints:nth_paragraph_first_word": _first_word,
    "length_constraints:number_paragraphs": _n_paragraphs,
    "length_constraints:number_sentences": _n_sentences,
    "length_constraints:number_words": _n_words,
    "punctuation:no_comma": _no_comma,
    "startend:end_checker": _ends,
    "startend:quotation": _quoted,
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
    given = {name: arguments.get(name) for name in _names(check)}
    for name, value in given.items():
        if value is None:
            raise DocumentError(f"the instruction {instruction!r} needs {name!r}")
    return bool(text.strip()) and check(text, **given)


def _names(check: Check) -> list[str]:
    return [name for name in check.__annotations__ if name not in ("text", "return")]


def _detected(text: str) -> str | None:
    """Return langdetect's language with a fixed seed; ``None`` on failure."""
    detector = _factory().create()
    detector.append(text)
    try:
        found = str(detector.detect())
    except _detection_error():
        return None
    return None if found == "unknown" else found


def _detection_error() -> type[Exception]:
    from langdetect.lang_detect_exception import LangDetectException

    kind: type[Exception] = LangDetectException
    return kind


@cache
def _factory() -> Any:
    try:
        from langdetect import detector_factory
    except ModuleNotFoundError as error:
        what = "an instruction about language"
        raise MissingExtraError(what, "langdetect", "metrics") from error
    factory = detector_factory.DetectorFactory()
    factory.load_profile(detector_factory.PROFILES_DIRECTORY)
    factory.seed = 0
    return factory
