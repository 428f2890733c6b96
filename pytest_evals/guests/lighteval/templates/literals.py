"""A language's words and punctuation in templates.

Rules as in lighteval 0.13.0 (``tasks/templates/utils``): case and final punctuation are
adjusted to the position of a text in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.errors import EvalsError
from pytest_evals.guests.lighteval.language import Language
from pytest_evals.guests.lighteval.metrics.extraction import labels_of
from pytest_evals.guests.lighteval.metrics.literals import LANGUAGES, Literals
from pytest_evals.guests.lighteval.metrics.normalizers import code_of

_RANGES = """
0021-0022 0027 002E 003F 0589 061D-061F 06D4 0700-0702 07F9 0837 0839 083D-083E
0964-0965 104A-104B 1362 1367-1368 166E 1735-1736 179B 17D4-17D6 17D9-17DA 1803 1809
1944-1945 1AA8-1AAB 1B5A-1B5B 1B5E-1B5F 1B7D-1B7E 1C3B-1C3C 1C7E-1C7F 203C-203D
2047-2049 2E2E 2E3C 2E53-2E54 3002 A4FF A60E-A60F A6F3 A6F7 A876-A877 A8CE-A8CF A92F
A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE52 FE56-FE57 FF01 FF0E FF1F FF61 10A56-10A57
10F55-10F59 10F86-10F89 11047-11048 110BE-110C1 11141-11143 111C5-111C6 111CD
111DE-111DF 11238-11239 1123B-1123C 112A9 1144B-1144C 115C2-115C3 115C9-115D7
11641-11642 1173C-1173E 11944 11946 11A42-11A43 11A9B-11A9C 11C41-11C42 11EF7-11EF8
11F43-11F44 16A6E-16A6F 16AF5 16B37-16B38 16B44 16E98 1BC9F 1DA88
"""
"""Code points and ranges of all characters that end a sentence: Unicode's
``Sentence_Terminal``, some similar ones, and straight quotes, as in lighteval 0.13.0
(``tasks/templates/utils/formatting_utils.py``)."""


_ENDINGS = "".join(
    chr(code)
    for first, *last in (run.split("-") for run in _RANGES.split())
    for code in range(int(first, 16), int(last[0] if last else first, 16) + 1)
)
"""All characters that end a sentence."""


def TranslationLiterals(language: Any, **words: Any) -> Literals:
    """Words of a language, as task modules define them."""
    given = {key: word for key, word in words.items() if word is not None}
    if "indices" in given:
        given["indices"] = tuple(given["indices"])
    return Literals(**{"answer": "", **given})


TRANSLATION_LITERALS: dict[Any, Literals] = {
    language: LANGUAGES.get(language.value, Literals()) for language in Language
}
"""Language → words, empty for many languages; modules may add entries."""


def template_language(language: Any) -> TemplateLanguage:
    """The words of a language, by ``Language`` or code.

    Raises:
        EvalsError: The language is unknown.
    """
    code = code_of(language)
    for candidate, words in TRANSLATION_LITERALS.items():
        if code_of(candidate) == code:
            return TemplateLanguage(code, words)
    fix = 'TRANSLATION_LITERALS[language] = TranslationLiterals(language, answer="…")'
    raise EvalsError(f"no words are defined for language {code!r}\n  fix: {fix}")


@dataclass(frozen=True, slots=True)
class TemplateLanguage:
    """A language as templates use it."""

    code: str
    signs: Literals

    def word(self, name: str) -> str:
        """A word of the language.

        Raises:
            EvalsError: The word is not defined.
        """
        word: str = getattr(self.signs, name)
        if not word:
            raise EvalsError(
                f"the word {name!r} is not defined for language {self.code!r}\n"
                "  fix: TRANSLATION_LITERALS[language] = TranslationLiterals(language, "
                f'{name}="…")'
            )
        return word

    def heading(self, name: str) -> str:
        """A word as a heading: ``Answer:``."""
        return capitalize(self.word(name)) + self.signs.colon

    def label(self, prefix: str, position: int) -> str:
        """The label of a listed choice.

        Raises:
            EvalsError: More choices than labels.
        """
        if prefix == "NativeLetters":
            labels: Sequence[str] = self.signs.indices
        else:
            labels = labels_of(prefix, self.code)
        if position >= len(labels):
            raise EvalsError(
                f"more choices than the {len(labels)} labels of language {self.code!r}"
            )
        return labels[position]

    def with_punctuation(self, text: str) -> str:
        """Replace the final punctuation mark by the language's own."""
        text = text.rstrip()
        signs = {
            "?": self.signs.question_mark,
            ".": self.signs.full_stop,
            ",": self.signs.comma,
            ":": self.signs.colon,
        }
        return text[:-1] + signs[text[-1]] if text and text[-1] in signs else text

    def as_sentence(self, text: str) -> str:
        """Capitalize a text and use the language's final punctuation."""
        return capitalize(self.with_punctuation(text))

    def ends(self, text: str) -> bool:
        """Whether a text ends with the end of a sentence."""
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
        """Space between a text and the next one."""
        return self.signs.sentence_space if self.ends(text) else self.signs.word_space

    def with_case(self, before: str, text: str) -> str:
        """Capitalize the text if it begins a sentence, else decapitalize it."""
        begins = not before or before.endswith("\n") or self.ends(before)
        return capitalize(text) if begins else decapitalize(text)


def open_ended(text: str) -> str:
    """Remove final punctuation, so that the sentence can continue."""
    return text.rstrip(_ENDINGS)


def capitalize(text: str) -> str:
    """Convert the first character to upper case."""
    return text[:1].upper() + text[1:]


def decapitalize(text: str) -> str:
    """Convert the first character to lower case."""
    return text[:1].lower() + text[1:]
