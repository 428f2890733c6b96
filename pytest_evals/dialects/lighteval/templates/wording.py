"""The words of a language as templates use them, and what they do to texts.

Rules as in lighteval 0.13.0 (``tasks/templates/utils``): case and the last sign of a
text are made to fit where the text stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.dialects.lighteval.language import Language
from pytest_evals.dialects.lighteval.templates.endings import ENDINGS
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.lighteval.extraction.letters import labels_of
from pytest_evals.scorers.lighteval.texts.languages import code_of
from pytest_evals.scorers.lighteval.texts.literals import LANGUAGES, Literals

__all__ = [
    "TRANSLATION_LITERALS",
    "TranslationLiterals",
    "Wording",
    "capitalize",
    "decapitalize",
    "open_ended",
    "wording_of",
]


def TranslationLiterals(language: Any, **words: Any) -> Literals:
    """Words of a language, as modules give their own."""
    given = {key: word for key, word in words.items() if word is not None}
    if "indices" in given:
        given["indices"] = tuple(given["indices"])
    return Literals(**{"answer": "", **given})


TRANSLATION_LITERALS: dict[Any, Literals] = {
    language: LANGUAGES.get(language.value, Literals()) for language in Language
}
"""Language → words, none at all for many; a module may add to it."""


def wording_of(language: Any) -> Wording:
    """The words of a language, given as such or by its code.

    Raises:
        EvalsError: We know none.
    """
    code = code_of(language)
    for known, words in TRANSLATION_LITERALS.items():
        if code_of(known) == code:
            return Wording(code, words)
    fix = 'TRANSLATION_LITERALS[language] = TranslationLiterals(language, answer="…")'
    raise EvalsError(f"there are no words of language {code!r}\n  fix: {fix}")


@dataclass(frozen=True, slots=True)
class Wording:
    """A language in the hands of a template.

    Args:
        code: Its ISO 639-3 code.
        signs: Its words and signs.
    """

    code: str
    signs: Literals

    def word(self, name: str) -> str:
        """One of its words.

        Raises:
            EvalsError: We do not know it.
        """
        found: str = getattr(self.signs, name)
        if not found:
            raise EvalsError(
                f"there is no {name!r} in the words of language {self.code!r}\n"
                "  fix: TRANSLATION_LITERALS[language] = TranslationLiterals(language, "
                f'{name}="…")'
            )
        return found

    def heading(self, name: str) -> str:
        """A word as a heading: ``Answer:``."""
        return capitalize(self.word(name)) + self.signs.colon

    def label(self, prefix: str, position: int) -> str:
        """What stands in front of a listed choice.

        Raises:
            EvalsError: There are more choices than labels.
        """
        if prefix == "NativeLetters":
            labels: Sequence[str] = self.signs.indices
        else:
            labels = labels_of(prefix, self.code)
        if position >= len(labels):
            raise EvalsError(f"there are {len(labels)} labels, and more choices")
        return labels[position]

    def ended(self, text: str) -> str:
        """The text with its last sign as the language writes it."""
        text = text.rstrip()
        own = {
            "?": self.signs.question_mark,
            ".": self.signs.full_stop,
            ",": self.signs.comma,
            ":": self.signs.colon,
        }
        return text[:-1] + own[text[-1]] if text and text[-1] in own else text

    def whole(self, text: str) -> str:
        """The text as a sentence of its own."""
        return capitalize(self.ended(text))

    def ends(self, text: str) -> bool:
        """Whether a sentence ends where the text ends."""
        marks = self.signs
        ends = (
            marks.question_mark,
            marks.full_stop,
            marks.exclamation_mark,
            marks.colon,
            marks.semicolon,
        )
        return text.rstrip().endswith(ends)

    def space_after(self, text: str) -> str:
        """What parts the text from what follows."""
        return self.signs.sentence_space if self.ends(text) else self.signs.word_space

    def following(self, before: str, text: str) -> str:
        """The text with a capital where a sentence begins, and none where it goes
        on."""
        begins = not before or before.endswith("\n") or self.ends(before)
        return capitalize(text) if begins else decapitalize(text)


def open_ended(text: str) -> str:
    """The text without the signs that end it, so that it can go on."""
    return text.rstrip(ENDINGS)


def capitalize(text: str) -> str:
    """The text with its first character in upper case."""
    return text[:1].upper() + text[1:]


def decapitalize(text: str) -> str:
    """The text with its first character in lower case."""
    return text[:1].lower() + text[1:]
