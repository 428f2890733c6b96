"""Words and punctuation by language, for prompt templates and answer extraction.

They are those of lighteval 0.13.0
(``tasks/templates/utils/translation_literals.py``), so that prompts are identical;
alphabets that are too short there are completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_LATIN = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """The words of a language, in lower case; empty if unknown.

    Args:
        answer: "answer", before an answer; matched case-insensitively.
        question_word: "question", before a question.
        confirmation_word: "right", after a statement to be confirmed.
        also: "also", before a further statement.
        cause_word: "because".
        effect_word: "therefore".
        indices: Letters of choices.
    """

    answer: str = ""
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
    "and_word",
    "true",
    "false",
    "neither",
)

_WORDS = """
ara|سؤال|إجابة|صحيح|نعم|لا|كذلك|لأن|لذلك|أو|و|صحيح|خاطئ|لا هذا ولا ذاك
bak|һорау|яуап|шулаймы|эйе|яҡ|шулай уҡ|сөнки|шуға|йәки||дөрөҫ|ялған|башҡа
bel|пытанне|адказ|ці не так|так|не|апроч таго|бо|таму|ці||праўда|няпраўда
 |ні тое, ні тое
ben|প্রশ্ন|উত্তর|তাই না|হ্যাঁ|না|সাথে|কারণ|অতএব|বা|এবং|সত্য|মিথ্যা|ন তাই, ন তাই না
bul|въпрос|отговор|вярно|да|не|също|защото|следователно|или||истина|лъжа
 |нито едното нито другото
cat|pregunta|resposta|cert|sí|no|també|perquè|per tant|o||veritable|fals|cap
ceb|pangutana|tubag|husto|oo|dili|ug unya|tungod kay|busa|o|ug|tinuod|dili tinuod
 |wala
ces|otázka|odpověď|že ano|ano|ne|navíc|protože|a tedy|nebo||pravda|nepravda
 |ani jedno
dan|spørgsmål|svar|ikke|ja|nej|også|fordi|derfor|eller||sandt|falsk|ingen af delene
deu|frage|antwort|richtig|ja|nein|auch|weil|deshalb|oder|und|wahr|falsch|weder noch
ell|ερώτηση|απάντηση|σωστά|ναι|όχι|επίσης|επειδή|άρα|ή|και|σωστό|λάθος|καμία απάντηση
eng|question|answer|right|yes|no|also|because|therefore|or|and|true|false|neither
est|küsimus|vastus|eks|jah|ei|samuti|sest|seega|või||õige|vale|mitte kumbki
eus|galdera|erantzuna|ezta|bai|ez|halaber|izan ere|beraz|ala||egia|faltsua
 |bat ere ez
fin|kysymys|vastaus|eikö niin|kyllä|ei|myös|koska|siksi|tai||totta|tarua
 |ei kumpikaan
fra|question|réponse|n'est-ce pas|oui|non|de plus|parce que|donc|ou|et|vrai|faux
 |aucun des deux
glg|pregunta|resposta|certo|si|non|tamén|porque|polo tanto|ou||verdadeiro|falso
 |ningún
guj|પ્રશ્ન|જવાબ|ખરું ને|હા|ના|અને|કારણ કે|તેથી|અથવા|અને|સાચું|ખોટું|ન તો આ, ન તે
hin|सवाल|उत्तर|है ना|हाँ|नहीं|साथ ही|क्योंकि|इसलिए|या|और|सत्य|असत्य|न तो यह, न वह
hrv|pitanje|odgovor|zar ne|da|ne|također|jer|dakle|ili||točno|netočno
 |ništa od navedenog
hti|||||||poukisa|donk sa
hun|kérdés|válasz|ugye|igen|nem|is|mert|ezért|vagy||igaz|hamis|egyik sem
ind|pertanyaan|jawaban|kan|ya|tidak|juga|karena|maka|atau||benar|salah
 |tidak satu pun
isl|spurning|svar|ekki satt|já|nei|líka|af því að|þess vegna|eða||satt|ósatt|hvorugt
ita|domanda|risposta|vero|sì|no|inoltre|perchè|quindi|o||vero|falso|nessuno dei due
jpn|質問|回答|でしょうか|はい|いいえ|また|なので|なぜなら|または|と|正解|不正解
 |どちらでもない
kor|질문|답변|맞죠|예|아니오||||또는|그리고
mkd|прашање|одговор|зарем не|да|не|исто така|бидејќи|затоа|или||точно|не точно
 |ништо од наведеното
nld|vraag|antwoord|toch|ja|nee|ook|want|dus|of||waar|onwaar|geen van beide
nor|spørsmål|svar|ikke sant|ja|nei|i tillegg|fordi|derfor|eller||sant|usant
 |ingen av delene
pan|ਸਵਾਲ|ਜਵਾਬ|ਹਾਂ ਨਾ|ਹਾਂ|ਨਹੀਂ|ਨਾਲ ਹੀ|ਕਿਉਂਕਿ|ਇਸ ਲਈ|ਜਾਂ|ਅਤੇ|ਸੱਚ|ਝੂਠ|ਨਾ ਤਾਂ, ਨਾ
pol|pytanie|odpowiedź|prawda|tak|nie|ponadto|ponieważ|więc|lub||prawda|fałsz
 |ani jedno ani drugie
por|pergunta|resposta|certo|sim|não|adicionalmente|porque|logo|ou||verdadeiro|falso
 |nenhum
que|||||||imataq|chaymi
ron|întrebare|răspuns|corect|da|nu|de asemenea|pentru că|prin urmare|sau|și|adevărat
 |fals|nici unul
rus|вопрос|ответ|верно|да|нет|к тому же|потому что|поэтому|или|и|истина|ложь
 |ни то ни другое
shn|ၶေႃႈထၢမ်|ၶေႃႈတွပ်ႇ|ၸွင်ႇၸႂ်ႈ|ၸႂ်ႈ|ဢမ်ႇ|လႄႈ|ၵွပ်ႈပိူဝ်ႈ|ၵွပ်ႈၼၼ်|ဢမ်ႇၼၼ်||တႄႉ|ဢမ်ႇတႄႉ
 |ဢမ်ႇၸႂ်ႈတင်းသွင်ဢၼ်
slk|otázka|odpoveď|že áno|áno|nie|taktiež|pretože|takže|alebo||pravda|nepravda
 |ani jeden
spa|pregunta|respuesta|cierto|sí|no|también|porque|por lo tanto|o|y|verdadero|falso
 |ninguno
srp|питање|одговор|зар не|да|не|такође|јер|дакле|или||тачно|нетачно
 |ништа од наведеног
swa|swali|jibu|sahihi|ndiyo|hapana|pia|kwa sababu|kwa hiyo|au||kweli|uongo
 |hakuna kati ya hizo
swe|fråga|svar|eller hur|ja|nej|också|eftersom|därför att|eller||sant|falskt
 |ingendera
tam|கேள்வி|பதில்|இல்லையா|ஆம்|இல்லை|மேலும்|ஏனெனில்|எனவே|அல்லது|மற்றும்|உண்மை|பொய்|இல்லை, இல்லை
tat|сорау|җавап|шулай түгелме|әйе|юк|шулай ук|чөнки|шуңа күрә|яки||дөрес|ялган
 |бер генә дә
tel|ప్రశ్న|జవాబు|కదా|అవును|కాదు|అలాగే|ఎందుకంటే|అందువలన|లేదా||నిజం|తప్పు|ఏదీ కాదు
tgl|tanong|sagot|tama ba|oo|hindi|at saka|dahil|kaya|o|at|totoo|hindi totoo|wala
tha|คำถาม|คำตอบ|ใช่ไหม|ใช่|ไม่|และ|เพราะ|ดังนั้น|หรือ|และ|จริง|เท็จ|ไม่ใช่ทั้งสองอย่าง
tur|soru|cevap|değil mi|evet|hayır|ayrıca|çünkü|bu yüzden|veya|ve|doğru|yanlış
 |hiçbiri
udm|юан|валэктон|озьы-а|бен|ӧвӧл|озьы ик|малы ке шуоно|соин ик|яке||шонерлык
 |пӧяськон|мукет
ukr|питання|відповідь|правильно|так|ні|також|тому що|отже|або||правда|неправда
 |ні те, ні інше
urd|سوال|جواب|نا|ہاں|نہیں|اور|کیونکہ|اس لئے|یا||درست|غلط|کوئی نہیں
uzb|savol|javob|to'g'ri|ha|yo'q|shuningdek|chunki|shuning uchun|yoki|va|rost|yolg'on
 |hech biri
vie|câu hỏi|trả lời|đúng|có|không|cũng|vì|do đó|hoặc||đúng|sai
 |không đúng cũng không sai
zho|问题|答案|对吗|是的|不是|而且|因为|所以|或|和|真|假|都不是
"""
"""One or two lines per language: its code, and the known words in the order of
``_NAMES``."""

_CYRILLIC = tuple("АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЭЮЯ")

_FULL_WIDTH = {
    "full_stop": "。",
    "question_mark": "？",
    "exclamation_mark": "！",
    "word_space": "",
    "sentence_space": "",
    "colon": "：",
}

_PUNCTUATION: Mapping[str, Mapping[str, str]] = {
    "ara": {"comma": "،", "question_mark": "؟"},
    "ben": {"full_stop": "।"},
    "ell": {"question_mark": ";", "semicolon": "·"},
    "guj": {"full_stop": "।"},
    "hin": {"full_stop": "।"},
    "jpn": {**_FULL_WIDTH, "comma": "、", "semicolon": "；"},
    "pan": {"full_stop": "।"},
    "shn": {"word_space": ""},
    "tam": {"full_stop": "।"},
    "tha": {"word_space": ""},
    "urd": {"full_stop": "۔", "comma": "،", "question_mark": "؟", "semicolon": "؛"},
    "zho": {**_FULL_WIDTH, "comma": "，"},
}

_LETTERS: Mapping[str, tuple[str, ...]] = {
    "ara": ("أ", "ب", "ج", "د", "هـ", *"وزحطيكلمنسعفصقرشتثخذضظغ"),
    "bak": _CYRILLIC,
    "bel": _CYRILLIC,
    "ben": tuple("কখগঘঙচছজঝঞটঠডঢণতথদধনপফবভমযরলশষসহ"),
    "bul": _CYRILLIC,
    "guj": tuple("અઆઇઈઉઊ"),
    "hin": tuple("कखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसह"),
    "rus": _CYRILLIC,
    "shn": tuple("ၵၶငၸသၺ"),
    "tat": _CYRILLIC,
    "tel": ("ఎ", "బి", "సి", "డి", "ఇ"),
    "tha": tuple("๑๒๓๔๕๖๗๘๙๐"),
    "udm": _CYRILLIC,
    "ukr": _CYRILLIC,
}


def _made(line: str) -> tuple[str, Literals]:
    code, *words = line.split("|")
    known: dict[str, Any] = dict(zip(_NAMES, words, strict=False))
    made = Literals(**known)
    punctuation = _PUNCTUATION.get(code, {})
    made = replace(made, **punctuation, indices=_LETTERS.get(code, _LATIN))
    return code, made


_LINES = _WORDS.strip().replace("\n ", "").split("\n")

LANGUAGES: Mapping[str, Literals] = dict(map(_made, _LINES))


def literals_of(language: str) -> Literals:
    """Return the words of a language; English ones for an unknown code."""
    return LANGUAGES.get(language, LANGUAGES["eng"])
