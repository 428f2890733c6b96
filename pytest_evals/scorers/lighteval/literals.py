"""Words and signs of languages that prompts and answers use: "Answer", "Question", the
letters in front of choices.

Which languages are complete, and which letters they use, is as in lighteval 0.13.0
(``tasks/templates/utils/translation_literals.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Literals", "literals_of"]

_LATIN = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """The words of one language; an empty one is not known.

    Args:
        answer: In front of an answer.
        question_word: In front of a question.
        full_stop: At the end of a sentence.
        comma: Between parts of one.
        colon: Behind a heading.
        sentence_space: Between sentences.
        indices: The letters of choices.
    """

    answer: str
    question_word: str = ""
    full_stop: str = "."
    comma: str = ","
    colon: str = ":"
    sentence_space: str = " "
    indices: tuple[str, ...] = _LATIN


_ENGLISH = Literals(answer="answer", question_word="question")

_LANGUAGES: Mapping[str, Literals] = {
    "ara": Literals(
        answer="الإجابة",
        question_word="سؤال",
        comma="،",
        indices=tuple("أبجدهوزحطيكلمنسعفصقرشتثخذضظغ"),
    ),
    "ben": Literals(answer="উত্তর", question_word="প্রশ্ন", full_stop="।"),
    "eng": _ENGLISH,
    "fra": Literals(answer="réponse", question_word="question"),
    "hin": Literals(
        answer="उत्तर",
        question_word="सवाल",
        full_stop="।",
        indices=tuple("कखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसह"),
    ),
    "zho": Literals(
        answer="答案",
        question_word="问题",
        full_stop="。",
        comma="，",
        colon="：",
        sentence_space="",
    ),
}


def literals_of(language: str) -> Literals:
    """The words of a language by its ISO 639-3 code; English ones where we know
    none."""
    return _LANGUAGES.get(language, _ENGLISH)
