"""Word and sentence tokenization by NLTK, without downloads.

Punkt's data for English are used if they are installed, else its default rules.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pytest_evals.errors import MissingExtraError


def sentences(text: str) -> list[str]:
    """Split an English text into sentences."""
    return list(_punkt().tokenize(text))


def words(text: str) -> list[str]:
    """Split a text into words (``nltk.word_tokenize``)."""
    tokenizer = _nltk("tokenize.destructive").NLTKWordTokenizer()
    return [word for each in sentences(text) for word in tokenizer.tokenize(each)]


def treebank_words(text: str) -> list[str]:
    """Split a text into words by the rules of the Penn Treebank."""
    return list(_nltk("tokenize.treebank").TreebankWordTokenizer().tokenize(text))


@cache
def _punkt() -> Any:
    punkt = _nltk("tokenize.punkt")
    try:
        return punkt.PunktTokenizer("english")
    except LookupError:
        return punkt.PunktSentenceTokenizer()


def _nltk(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"nltk.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtraError("this metric", "nltk", "metrics") from error
