"""Helpers of IFBench's checks: stripping punctuation, and libraries."""

from __future__ import annotations

import string
import unicodedata
from functools import cache
from importlib import import_module
from typing import Any

from pytest_evals.errors import DocumentError, MissingExtraError

EDGES = string.punctuation + " "
"""Characters stripped from the ends of words and lines."""


def trimmed(text: str) -> str:
    """Strip ASCII punctuation and spaces."""
    return text.strip(EDGES)


def ascii_only(text: str) -> str:
    """Remove accents and other non-ASCII characters."""
    parts = unicodedata.normalize("NFKD", text)
    return parts.encode("ascii", "ignore").decode("ascii")


@cache
def library(name: str) -> Any:
    """Import a library.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError("this instruction", name, "metrics") from error


def nltk_data(what: str, error: LookupError) -> DocumentError:
    """Return the error for missing NLTK data."""
    made = DocumentError(
        f"this instruction needs NLTK's {what}\n  fix: python -m nltk.downloader {what}"
    )
    made.__cause__ = error
    return made
