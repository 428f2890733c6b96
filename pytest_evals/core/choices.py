"""The choices of a case, and which of them its target names."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from pytest_evals.errors import DocumentError, suggestion

_SHOWN = 60
_FIX = "give the text, the letter or the index (from 0) of the correct choice"


def checked_choices(given: Any) -> tuple[str, ...]:
    """Return choices as texts without surrounding whitespace.

    Raises:
        DocumentError: They are not a list of at least two different texts or numbers.
    """
    given = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise _fault(f"choices must be a list, not {given!r:.{_SHOWN}}", "")
    for n, one in enumerate(given):
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise _fault(
                f"choice {n} is {one!r:.{_SHOWN}}, not text", "put it in quotes"
            )
    texts = tuple(str(one).strip() for one in given)
    for n, text in enumerate(texts):
        if not text:
            raise _fault(f"choice {n} is empty", "remove it")
        if texts.index(text) != n:
            what = f"choices {texts.index(text)} and {n} are both {text!r:.{_SHOWN}}"
            raise _fault(what, "remove one of them")
    if not texts:
        raise _fault("the list of choices is empty", "")
    if len(texts) == 1:
        raise _fault(f"there is only one choice, {texts[0]!r:.{_SHOWN}}", "")
    return texts


def golds_of(target: Any, choices: Sequence[str]) -> list[int]:
    """Return the indices of the choices that a target names.

    Args:
        target: The text, the letter or the index of a choice, or a list of these.

    Raises:
        DocumentError: The target names no choice, or may name several.
    """
    listed = target if isinstance(target, list | tuple) else [target]
    if target is None or not listed:
        raise _fault("a case with choices has no target", _FIX)
    return [*dict.fromkeys(_gold_of(one, choices) for one in listed)]


def _gold_of(target: Any, choices: Sequence[str]) -> int:
    text, n = str(target).strip(), len(choices)
    found: dict[int, str] = {}
    if text.isascii() and text.isdigit() and int(text[:9]) < n:
        found[int(text)] = "index"
    for letters in (ascii_lowercase, ascii_uppercase):
        if len(text) == 1 and text in letters[:n]:
            found[letters.index(text)] = "letter"
    if text in choices:
        found[choices.index(text)] = "text"
    if isinstance(target, bool) or not found:
        hint = suggestion(text, choices)
        raise _fault(
            f"target {target!r:.{_SHOWN}} is not among the choices{hint}", _FIX
        )
    if len(found) > 1:
        named = " and ".join(f"the {how} of choice {n}" for n, how in found.items())
        what = f"target {target!r} is ambiguous: {named}, counted from 0"
        fix = "give the index (from 0) of the correct choice"
        if "index" in found.values():
            fix = "give the letter of the correct choice, such as {{ 'ABCD'[label] }}"
        raise _fault(what, fix)
    return next(iter(found))


def _fault(what: str, fix: str) -> DocumentError:
    fix = fix or 'list at least two texts, such as ["Paris", "Rome"]'
    return DocumentError(f"{what}\n  fix: {fix}")
