"""What several of IFBench's instructions look at: words without punctuation, and the
parts that libraries cut out."""

from __future__ import annotations

import string
import unicodedata
from functools import cache
from importlib import import_module
from typing import Any

from pytest_evals.errors import DocumentError, MissingExtraError

EDGES = string.punctuation + " "
"""What is cut off the ends of words and lines."""


def trimmed(text: str) -> str:
    """The text without ASCII punctuation and spaces at its ends."""
    return text.strip(EDGES)


def ascii_only(text: str) -> str:
    """The text without accents and other non-ASCII characters."""
    parts = unicodedata.normalize("NFKD", text)
    return parts.encode("ascii", "ignore").decode("ascii")


@cache
def library(name: str) -> Any:
    """A library that an instruction needs.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError("this instruction", name, "metrics") from error


def nltk_data(what: str, error: LookupError) -> DocumentError:
    """The error of an instruction that needs data which NLTK has not got."""
    made = DocumentError(
        f"this instruction needs NLTK's {what}\n  fix: python -m nltk.downloader {what}"
    )
    made.__cause__ = error
    return made
