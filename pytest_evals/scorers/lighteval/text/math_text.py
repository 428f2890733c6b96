"""Answers in LaTeX made alike as texts: the rules of the MATH data set (Hendrycks et
al. 2021), as lighteval 0.13.0 applies them. Nothing is computed here."""

from __future__ import annotations

import re

__all__ = ["boxed", "math_normalizer"]

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
    """The content of the last ``\\boxed{…}``, in one spelling; empty if there is no
    box."""
    inner = boxed(text)
    return "" if inner is None else _spelled(inner)


def boxed(text: str) -> str | None:
    """The content of the last ``\\boxed{…}``; ``None`` if nothing is boxed in whole.

    With a space before the brace, the braces are part of it. A box without braces that
    comes last gives ``None``.
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
    """The position of the first brace that closes as many as were opened."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if text[at] == "}" and depth == 0:
            return at
    return None


def _spelled(text: str) -> str:
    for wrong, right in _SPELLINGS:
        text = text.replace(wrong, right)
    text = _without_units(text).replace("\\%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    if text.startswith("."):
        text = f"0{text}"
    left, equals, right = text.partition("=")
    if equals and "=" not in right and len(left) <= 2:
        text = right
    text = _with_braced_roots(text).replace(" ", "")
    text = _with_braced_fractions(text)
    if text == "0.5":
        return "\\frac{1}{2}"
    return _as_fraction(text)


def _without_units(text: str) -> str:
    """Without what follows the first ``\\text{ ``."""
    before, units, _ = text.partition("\\text{ ")
    return before.rstrip() if units else text


def _with_braced_roots(text: str) -> str:
    return re.sub(r"\\sqrt(?!\{)(.)", r"\\sqrt{\1}", text, flags=re.DOTALL)


def _with_braced_fractions(text: str) -> str:
    """``\\frac12`` → ``\\frac{1}{2}``; a text that ends too early stays as it is."""
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
    """``3/4`` → ``\\frac{3}{4}``, for whole numbers in their shortest form."""
    above, slash, below = text.partition("/")
    if not slash or "/" in below:
        return text
    try:
        whole = int(above), int(below)
    except ValueError:
        return text
    if text != f"{whole[0]}/{whole[1]}":
        return text
    return f"\\frac{{{whole[0]}}}{{{whole[1]}}}"
