"""Words and signs of languages: those by which an answer is found in a text, and those
that templates write prompts with.

Which languages have letters of their own is as in lighteval 0.13.0
(``tasks/templates/utils/translation_literals.py``). The words of Arabic, Chinese,
English and French are those that it was seen to write; all others are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["LANGUAGES", "Literals", "literals_of"]

_LATIN = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """The words of one language, in lower case; empty where we know none.

    Args:
        answer: In front of an answer; case does not count.
        question_word: In front of a question.
        confirmation_word: Behind a statement that asks to be confirmed.
        yes: Agreement.
        no: Disagreement.
        also: In front of a further statement.
        cause_word: Between an effect and its cause.
        effect_word: Between a cause and its effect.
        or_word: In front of the last of several.
        and_word: In front of the last of several.
        true: What follows.
        false: What is contradicted.
        neither: What is neither.
        full_stop: At the end of a sentence.
        comma: Between parts of one.
        question_mark: At the end of a question.
        exclamation_mark: At the end of an exclamation.
        word_space: Between words.
        sentence_space: Between sentences.
        colon: Behind a heading.
        semicolon: Between sentences that belong together.
        indices: The letters of choices.
    """

    answer: str
    question_word: str = ""
    confirmation_word: str = ""
    yes: str = ""
    no: str = ""
    also: str = ""
    cause_word: str = ""
    effect_word: str = ""
    or_word: str = ""
    and_word: str = ""
    true: str = ""
    false: str = ""
    neither: str = ""
    full_stop: str = "."
    comma: str = ","
    question_mark: str = "?"
    exclamation_mark: str = "!"
    word_space: str = " "
    sentence_space: str = " "
    colon: str = ":"
    semicolon: str = ";"
    indices: tuple[str, ...] = _LATIN


_NAMES = (
    "question_word",
    "answer",
    "confirmation_word",
    "yes",
    "no",
    "also",
    "cause_word",
    "effect_word",
    "or_word",
    "true",
    "false",
    "neither",
)

_WORDS = """
ara|سؤال|إجابة|صحيح|نعم|لا|كذلك|لأن|لذلك|أو|صحيح|خاطئ|لا هذا ولا ذاك
ben|প্রশ্ন|উত্তর
bul|въпрос|отговор|нали|да|не|освен това|защото|затова|или|вярно|невярно|нито едно
ces|otázka|odpověď|že ano|ano|ne|také|protože|proto|nebo|pravda|nepravda|ani jedno
dan|spørgsmål|svar|ikke sandt|ja|nej|også|fordi|derfor|eller|sandt|falsk|ingen af delene
deu|frage|antwort|richtig|ja|nein|auch|weil|deshalb|oder|wahr|falsch|weder noch
eng|question|answer|right|yes|no|also|because|therefore|or|true|false|neither
fin|kysymys|vastaus|eikö niin|kyllä|ei|myös|koska|siksi|tai|totta|tarua|ei kumpikaan
fra|question|réponse|n'est-ce pas|oui|non|de plus|parce que|donc|ou|vrai|faux|ni l'un ni l'autre
guj|પ્રશ્ન|જવાબ
hin|सवाल|उत्तर|है ना|हाँ|नहीं|साथ ही|क्योंकि|इसलिए|या|सत्य|असत्य|न तो यह, न वह
ita|domanda|risposta|vero|sì|no|inoltre|perché|quindi|o|vero|falso|nessuno dei due
jpn|質問|答え
kor|질문|답변
nld|vraag|antwoord|toch|ja|nee|ook|want|dus|of|waar|onwaar|geen van beide
pol|pytanie|odpowiedź|prawda|tak|nie|ponadto|ponieważ|więc|lub|prawda|fałsz|ani jedno, ani drugie
por|pergunta|resposta|certo|sim|não|além disso|porque|portanto|ou|verdadeiro|falso|nenhum dos dois
ron|întrebare|răspuns|nu-i așa|da|nu|de asemenea|pentru că|prin urmare|sau|adevărat|fals|niciuna
rus|вопрос|ответ|не так ли|да|нет|к тому же|потому что|поэтому|или|истина|ложь|ни то ни другое
spa|pregunta|respuesta|verdad|sí|no|también|porque|por lo tanto|o|verdadero|falso|ninguno
swa|swali|jibu|sahihi|ndiyo|hapana|pia|kwa sababu|kwa hiyo|au|kweli|uongo|hakuna
swe|fråga|svar|eller hur|ja|nej|också|eftersom|därför|eller|sant|falskt|inget av dem
tel|ప్రశ్న|సమాధానం
tha|คำถาม|คำตอบ
tur|soru|cevap|değil mi|evet|hayır|ayrıca|çünkü|bu yüzden|veya|doğru|yanlış|hiçbiri
ukr|питання|відповідь|чи не так|так|ні|крім того|тому що|тому|або|правда|неправда|ні те ні інше
vie|câu hỏi|câu trả lời|đúng không|có|không|hơn nữa|bởi vì|vì vậy|hoặc|đúng|sai|không cái nào
zho|问题|答案|对吗|是的|不是|而且|因为|所以|或|真|假|都不是
"""
"""A line a language: its code, and its words in the order of ``_NAMES``, as far as we
know them."""

_CYRILLIC = tuple("АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЭЮЯ")

_SIGNS: Mapping[str, Mapping[str, str]] = {
    "ara": {"comma": "،", "question_mark": "؟", "semicolon": "؛"},
    "ben": {"full_stop": "।"},
    "hin": {"full_stop": "।"},
    "jpn": {
        "full_stop": "。",
        "comma": "、",
        "question_mark": "？",
        "exclamation_mark": "！",
        "word_space": "",
        "sentence_space": "",
        "colon": "：",
        "semicolon": "；",
    },
    "tha": {"word_space": ""},
    "zho": {
        "full_stop": "。",
        "comma": "，",
        "question_mark": "？",
        "exclamation_mark": "！",
        "word_space": "",
        "sentence_space": "",
        "colon": "：",
        "semicolon": "；",
    },
}

_LETTERS: Mapping[str, tuple[str, ...]] = {
    "ara": tuple("أبجدهوزحطيكلمنسعفصقرشتثخذضظغ"),
    "ben": tuple("কখগঘঙচছজঝঞটঠডঢণতথদধনপফবভমযরলশষসহ"),
    "bul": _CYRILLIC,
    "guj": tuple("કખગઘઙચછજઝઞટઠડઢણતથદધનપફબભમયરલવશષસહ"),
    "hin": tuple("कखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसह"),
    "rus": _CYRILLIC,
    "tel": tuple("కఖగఘఙచఛజఝఞటఠడఢణతథదధనపఫబభమయరలవశషసహ"),
    "tha": tuple("กขคงจฉชซญดตถทนบปผฝพฟมยรลวสหอ"),
    "ukr": _CYRILLIC,
}


def _made(line: str) -> tuple[str, Literals]:
    code, *words = line.split("|")
    known: dict[str, Any] = dict(zip(_NAMES, words, strict=False))
    made = Literals(**known)
    signs = _SIGNS.get(code, {})
    made = replace(made, **signs, indices=_LETTERS.get(code, _LATIN))
    return code, made


LANGUAGES: Mapping[str, Literals] = dict(map(_made, _WORDS.split("\n")[1:-1]))
"""ISO 639-3 code → words."""


def literals_of(language: str) -> Literals:
    """The words of a language by its ISO 639-3 code; English ones where we know
    none."""
    return LANGUAGES.get(language, LANGUAGES["eng"])
