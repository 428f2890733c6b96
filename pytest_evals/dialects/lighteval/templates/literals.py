"""The words of a language as templates use them, and what they do to texts.

Rules as in lighteval 0.13.0 (``tasks/templates/utils``): case and the last sign of a
text are made to fit where the text stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.dialects.lighteval.language import Language
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.lighteval.extraction.letters import labels_of
from pytest_evals.scorers.lighteval.text.languages import code_of
from pytest_evals.scorers.lighteval.text.literals import LANGUAGES, Literals

__all__ = [
    "TRANSLATION_LITERALS",
    "TranslationLiterals",
    "Wording",
    "capitalize",
    "decapitalize",
    "open_ended",
    "wording_of",
]

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
"""First and last code point of each run, or the only one, of all signs that end a
sentence: Unicode's ``Sentence_Terminal``, some near ones, and straight quotes, as
lighteval 0.13.0 has them (``tasks/templates/utils/formatting_utils.py``)."""


def _characters(run: str) -> str:
    first, _, last = run.partition("-")
    return "".join(map(chr, range(int(first, 16), int(last or first, 16) + 1)))


ENDINGS = "".join(map(_characters, _RANGES.split()))
"""All signs that end a sentence."""


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
