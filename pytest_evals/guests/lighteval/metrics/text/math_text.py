"""Normalization of LaTeX answers by the rules of the MATH data set (Hendrycks et al.
2021), as in lighteval 0.13.0."""

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
    """Return the position of the matching closing brace."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if text[at] == "}" and depth == 0:
            return at
    return None


def _normalized(text: str) -> str:
    for old, new in _SPELLINGS:
        text = text.replace(old, new)
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
    """Remove the text after the first ``\\text{ ``."""
    before, units, _ = text.partition("\\text{ ")
    return before.rstrip() if units else text


def _with_braced_roots(text: str) -> str:
    return re.sub(r"\\sqrt(?!\{)(.)", r"\\sqrt{\1}", text, flags=re.DOTALL)


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
        whole = int(above), int(below)
    except ValueError:
        return text
    if text != f"{whole[0]}/{whole[1]}":
        return text
    return f"\\frac{{{whole[0]}}}{{{whole[1]}}}"
