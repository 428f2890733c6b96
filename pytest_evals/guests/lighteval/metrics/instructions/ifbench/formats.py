"""IFBench's instructions about the format of an answer (``format:``)."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from itertools import pairwise

from pytest_evals.guests.lighteval.metrics.instructions.ifbench.tokens import (
    library,
    sentences,
    trimmed,
)
from pytest_evals.guests.lighteval.metrics.normalizers import without_punctuation
from pytest_evals.guests.lighteval.metrics.normalizers import words as nltk_words

_CLOSING = {")": "(", "]": "[", "}": "{"}
_BRACKETS, _QUOTES = 5, 3
"""Required nesting depth of brackets and quotes."""
_PARTS = ("My Answer:", "My Conclusion:", "Future Outlook:")
_IN_LETTERS = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")


def _brackets(text: str) -> bool:
    """Check for nested brackets, at least the innermost of which is closed."""
    opened: list[str] = []
    deepest = 0
    for char in text:
        if char in _CLOSING.values():
            opened.append(char)
            deepest = max(deepest, len(opened))
        elif char in _CLOSING and opened and opened[-1] == _CLOSING[char]:
            opened.pop()
            if deepest >= _BRACKETS:
                return True
        elif char in _CLOSING:
            opened, deepest = [], 0
    return False


def _quotes(text: str) -> bool:
    """Check for nested quotes, all closed; single and double quotes differ."""
    opened: list[str] = []
    deepest = 0
    for char in text:
        if opened and char == opened[-1]:
            opened.pop()
            if deepest - len(opened) >= _QUOTES:
                return True
        elif char in "\"'":
            opened.append(char)
            deepest = max(deepest, len(opened))
    return False


def _options(text: str, *, options: str) -> bool:
    """Check for exactly one of the options; letters are case-sensitive."""
    separator = "/" if "/" in options else "or" if "or" in options else ","
    known = [option.strip() for option in options.split(separator)]
    if _IN_LETTERS.match(options):
        return text in known
    return trimmed(text).lower() in [trimmed(option).lower() for option in known]


def _word_a_line(text: str) -> bool:
    bare = without_punctuation(text).strip()
    lines = [line for line in bare.split("\n") if line]
    return len(lines) == len(bare.split())


def _emojis(text: str) -> bool:
    """Check that each sentence ends with an emoji, or the next one starts with it."""
    parts = [without_punctuation(part).strip() for part in sentences(text)]
    # An emoji may be two characters; punctuation is ignored.
    return all(
        any(map(_is_emoji, part[-2:])) or (bool(part) and _is_emoji(after[:1]))
        for part, after in zip(parts, [*parts[1:], ""], strict=True)
    )


def _is_emoji(char: str) -> bool:
    return bool(library("emoji").is_emoji(char))


def _stairs(text: str) -> bool:
    """Check that each line is indented further than the previous one."""
    lines = _without_blank(text.split("\n"))
    steps = [len(line) - len(line.lstrip(" ")) for line in lines]
    return all(a < b for a, b in pairwise(steps))


def _without_blank(lines: list[str]) -> list[str]:
    """Remove blank lines. Of consecutive ones every other one is kept, as in
    lighteval, which fails the check."""
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            lines = [*lines]
            lines.remove(lines[at])
        at += 1
    return lines


def _explained(text: str) -> bool:
    """Check that no quote is directly followed by another, or ends the answer."""
    text = text.replace("“", '"').replace("”", '"').replace("'\"'", "")
    text = "".join(text.split())
    signs = string.digits + string.punctuation.replace('"', "")
    return '""' not in text and not text.strip(signs).endswith('"')


def _listed(text: str, *, sep: str) -> bool:
    return text.count(sep) >= 2


def _thesis(text: str) -> bool:
    """Check for text in italics that is followed by other text."""
    start = next((i for tag in ("<i>", "<em>") if (i := text.find(tag)) >= 0), -1)
    text = text[start:]
    end = next((i for tag in ("</i>", "</em>") if (i := text.find(tag)) >= 0), -1)
    if start < 0 or end < 0:
        return False
    return bool(text[3:end].strip() and text[end + 4 :].strip())


def _sub_bullets(text: str) -> bool:
    return all("-" in part for part in text.split("*")[1:])


def _sentences_then_bullets(text: str) -> bool:
    """Check for at least two sentences, then at least two bullets and nothing else."""
    n_sentences = n_bullets = 0
    in_sentences = True  # until a bullet or blank line
    for line in map(str.strip, text.split("\n")):
        if line.startswith("*"):
            in_sentences, n_bullets = False, n_bullets + 1
            if n_sentences < 2:
                return False
        elif in_sentences:
            n = len(sentences(line))
            in_sentences, n_sentences = n > 0, n_sentences + n
        else:
            return False
    return n_bullets >= 2


def _title_case(text: str) -> bool:
    return not any(
        word[0].islower() and (word[1:].isupper() or word[1:].islower())
        for word in nltk_words(text)
    )


def _template(text: str) -> bool:
    return all(part in text for part in _PARTS)


def _no_space(text: str) -> bool:
    return not any(map(str.isspace, text))


FORMATS: Mapping[str, Callable[..., bool]] = {
    "format:emoji": _emojis,
    "format:line_indent": _stairs,
    "format:list": _listed,
    "format:newline": _word_a_line,
    "format:no_bullets_bullets": _sentences_then_bullets,
    "format:no_whitespace": _no_space,
    "format:options": _options,
    "format:output_template": _template,
    "format:parentheses": _brackets,
    "format:quote_unquote": _explained,
    "format:quotes": _quotes,
    "format:sub-bullets": _sub_bullets,
    "format:thesis": _thesis,
    "format:title_case": _title_case,
}
