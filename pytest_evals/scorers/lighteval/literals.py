"""Words and signs of languages by which an answer is found in a text: the word for
"answer", punctuation, the letters in front of choices.

Which languages have letters of their own is as in lighteval 0.13.0
(``tasks/templates/utils/translation_literals.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Literals", "literals_of"]

_LATIN = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """The words of one language.

    Args:
        answer: In front of an answer; case does not count.
        full_stop: At the end of a sentence.
        comma: Between parts of one.
        colon: Behind a heading.
        sentence_space: Between sentences.
        indices: The letters of choices.
    """

    answer: str
    full_stop: str = "."
    comma: str = ","
    colon: str = ":"
    sentence_space: str = " "
    indices: tuple[str, ...] = _LATIN


_ENGLISH = Literals(answer="answer")

_CYRILLIC = tuple("АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЭЮЯ")

_LANGUAGES: Mapping[str, Literals] = {
    "ara": Literals(
        answer="الإجابة",
        comma="،",
        indices=tuple("أبجدهوزحطيكلمنسعفصقرشتثخذضظغ"),
    ),
    "ben": Literals(
        answer="উত্তর", full_stop="।", indices=tuple("কখগঘঙচছজঝঞটঠডঢণতথদধনপফবভমযরলশষসহ")
    ),
    "bul": Literals(answer="отговор", indices=_CYRILLIC),
    "ces": Literals(answer="odpověď"),
    "deu": Literals(answer="Antwort"),
    "eng": _ENGLISH,
    "fra": Literals(answer="réponse"),
    "guj": Literals(answer="જવાબ", indices=tuple("કખગઘઙચછજઝઞટઠડઢણતથદધનપફબભમયરલવશષસહ")),
    "hin": Literals(
        answer="उत्तर",
        full_stop="।",
        indices=tuple("कखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसह"),
    ),
    "ita": Literals(answer="risposta"),
    "jpn": Literals(
        answer="答え", full_stop="。", comma="、", colon="：", sentence_space=""
    ),
    "kor": Literals(answer="답변"),
    "nld": Literals(answer="antwoord"),
    "pol": Literals(answer="odpowiedź"),
    "por": Literals(answer="resposta"),
    "ron": Literals(answer="răspuns"),
    "rus": Literals(answer="ответ", indices=_CYRILLIC),
    "spa": Literals(answer="respuesta"),
    "swa": Literals(answer="jibu"),
    "tel": Literals(answer="సమాధానం", indices=tuple("కఖగఘఙచఛజఝఞటఠడఢణతథదధనపఫబభమయరలవశషసహ")),
    "tha": Literals(answer="คำตอบ", indices=tuple("กขคงจฉชซญดตถทนบปผฝพฟมยรลวสหอ")),
    "tur": Literals(answer="cevap"),
    "ukr": Literals(answer="відповідь", indices=_CYRILLIC),
    "vie": Literals(answer="câu trả lời"),
    "zho": Literals(
        answer="答案",
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
