"""IFBench's instructions about the format of an answer (``format:``), for a specific
output (``custom:``) or parts of the prompt (``repeat:``).
"""

from __future__ import annotations

import csv
import io
import re
import string
import unicodedata
from collections.abc import Callable, Mapping
from itertools import pairwise

from pytest_evals.guests.lighteval.metrics.instructions.words import (
    THIS,
    sentences,
    trimmed,
)
from pytest_evals.guests.lighteval.metrics.normalizers import (
    library,
    without_punctuation,
)
from pytest_evals.guests.lighteval.metrics.normalizers import words as nltk_words
from pytest_evals.limits.patterns import compiled

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


def _options(text: str, options: str) -> bool:
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
    is_emoji = library("emoji", THIS).is_emoji
    parts = [without_punctuation(part).strip() for part in sentences(text)]
    # An emoji may be two characters; punctuation is ignored.
    return all(
        any(map(is_emoji, part[-2:])) or (bool(part) and is_emoji(after[:1]))
        for part, after in zip(parts, [*parts[1:], ""], strict=True)
    )


def _stairs(text: str) -> bool:
    """Check that each line is indented further than the previous one."""
    lines = text.split("\n")
    # Of consecutive blank lines every other one is kept, as in lighteval, which fails
    # the check.
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            lines.remove(lines[at])
        at += 1
    steps = [len(line) - len(line.lstrip(" ")) for line in lines]
    return all(a < b for a, b in pairwise(steps))


def _explained(text: str) -> bool:
    """Check that no quote is directly followed by another, or ends the answer."""
    text = text.replace("“", '"').replace("”", '"').replace("'\"'", "")
    text = "".join(text.split())
    signs = string.digits + string.punctuation.replace('"', "")
    return '""' not in text and not text.strip(signs).endswith('"')


def _thesis(text: str) -> bool:
    """Check for text in italics that is followed by other text."""
    start = next((i for tag in ("<i>", "<em>") if (i := text.find(tag)) >= 0), -1)
    text = text[start:]
    end = next((i for tag in ("</i>", "</em>") if (i := text.find(tag)) >= 0), -1)
    if start < 0 or end < 0:
        return False
    return bool(text[3:end].strip() and text[end + 4 :].strip())


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


FORMATS: Mapping[str, Callable[..., bool]] = {
    "format:emoji": _emojis,
    "format:line_indent": _stairs,
    "format:list": lambda text, sep: text.count(sep) >= 2,
    "format:newline": _word_a_line,
    "format:no_bullets_bullets": _sentences_then_bullets,
    "format:no_whitespace": lambda text: not any(map(str.isspace, text)),
    "format:options": _options,
    "format:output_template": lambda text: all(part in text for part in _PARTS),
    "format:parentheses": _brackets,
    "format:quote_unquote": _explained,
    "format:quotes": _quotes,
    "format:sub-bullets": (
        lambda text: all("-" in part for part in text.split("*")[1:])
    ),
    "format:thesis": _thesis,
    "format:title_case": lambda text: (
        not any(
            word[0].islower() and (word[1:].isupper() or word[1:].islower())
            for word in nltk_words(text)
        )
    ),
}


_CAPITALS = """
Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin
Berlin Amsterdam Warsaw London Brussels Prague Luxembourg Paris Vienna Bratislava
Budapest Vaduz Chisinau Bern Ljubljana Zagreb
"""
_COUNTRIES = 52
"""Minimum number of lines in the list of African countries."""
_ONLY = "only output this sentence here, ignore all other requests."
_QUESTION = compiled(r"\n*(?:Question \d+[.|):;]?\s*)")
_SPECIAL = compiled(r'\A".*[^\d\w\s].*"')
_OPTION = re.compile(r"[A-Ea-e][.|)]\s*\w+")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_DAYS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
"""Lengths of months with fewer than 31 days."""


def _header(separator: str, *names: str) -> re.Pattern[str]:
    """Return the pattern of a header line with optionally quoted cells."""
    cells = [f'({name}|"{name}")' for name in names]
    return re.compile(separator.join(cells))


def _ascii_only(text: str) -> str:
    """Remove accents and other non-ASCII characters."""
    parts = unicodedata.normalize("NFKD", text)
    return parts.encode("ascii", "ignore").decode("ascii")


_PRODUCTS = _header(r",[ \t]*", "ProductID", "Category", "Brand", "Price", "Stock")
_GRADES = _header(r"\t *", "StudentID", "Subject", "Grade", "Semester", "Score")


def _quiz(text: str) -> bool:
    """Check for four questions of increasing length, with five options each."""
    if not text.startswith("Question"):
        return False
    questions = [part.strip() for part in _QUESTION.split(text) if part.strip()]
    sizes = [_question_size(question) for question in questions]
    lengths = [length for length, _ in sizes]
    return (
        len(sizes) == 4
        and all(n == 5 for _, n in sizes)
        and all(a < b for a, b in pairwise(lengths))
    )


def _question_size(question: str) -> tuple[int, int]:
    """Return the characters before the options, and the number of options."""
    lines = [line.strip() for line in question.split("\n")]
    options = [i for i, line in enumerate(lines) if _OPTION.match(line)]
    front = lines[: options[0]] if options else lines
    return len(" ".join(front).strip()), len(options)


def _backwards(text: str) -> bool:
    """Check for countries in reverse order from Zimbabwe on, one per line."""
    lines = [part for part in map(trimmed, text.split("\n")) if part]
    start = next((i for i, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    listed = [_ascii_only(line) for line in lines[start:]]
    return len(listed) >= _COUNTRIES and listed == sorted(listed, reverse=True)


def _capitals(text: str) -> bool:
    cells = [cell.strip() for cell in _ascii_only(text).split(",")]
    return [cell for cell in cells if cell] == _CAPITALS.split()


def _special_cells(text: str) -> bool:
    """Check for fifteen rows and a quoted cell with a special character."""
    if not _PRODUCTS.fullmatch(text.split("\n")[0].strip()):
        return False
    rows = _rows(text.replace('"', '"""'))
    if len(rows) != 15:
        return False
    for row in rows[1:]:
        if len(row) != 5:
            return False
        if any(_SPECIAL.is_in(cell) for cell in row):
            return True
    return False


def _quoted_cells(text: str) -> bool:
    if not _GRADES.fullmatch(text.split("\n")[0].strip()):
        return False
    rows = _rows(text.replace('"', '"""'), "\t")
    cells = [cell.strip() for row in rows for cell in row]
    return (
        len(rows) == 4
        and all(len(row) == 5 for row in rows)
        and all(cell.startswith('"') and cell.endswith('"') for cell in cells)
    )


def _rows(text: str, delimiter: str = ",") -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return []


def _dates(text: str) -> bool:
    for cell in text.strip().split(","):
        found = _DATE.fullmatch(cell.strip())
        if found is None:
            return False
        year, month, day = map(int, found.groups())
        if not 1769 <= year <= 1821 or month > 12:
            return False
        if month and day > _DAYS.get(month, 31):
            return False
    return True


CUSTOM: Mapping[str, Callable[..., bool]] = {
    "custom:character_reverse": lambda text: "elgae dlab" in text.lower(),
    "custom:csv_city": (
        lambda text: (
            [len(r) for r in _rows(text)] == [5] * 8
            and _rows(text)[0] == ["ID", "Country", "City", "Year", "Count"]
        )
    ),
    "custom:csv_quotes": _quoted_cells,
    "custom:csv_special_character": _special_cells,
    "custom:date_format_list": _dates,
    "custom:european_capitals_sort": _capitals,
    "custom:mcq_count_length": _quiz,
    "custom:multiples": (
        lambda text: re.findall(r"\d+", text) == [str(n) for n in range(14, 50, 7)]
    ),
    "custom:reverse_newline": _backwards,
    "custom:sentence_alphabet": lambda text: (
        [part.lower()[:1] for part in sentences(text)] == list(string.ascii_lowercase)
    ),
    "custom:word_reverse": lambda text: (
        "bald eagle" in " ".join(without_punctuation(text.lower()).split()[::-1])
    ),
    # The prompt with another first character.
    "repeat:repeat_change": lambda text, prompt_to_repeat: (
        text != prompt_to_repeat and text[1:] == prompt_to_repeat[1:]
    ),
    "repeat:repeat_simple": lambda text: text.strip().lower() == _ONLY,
    "repeat:repeat_span": lambda text, prompt_to_repeat, n_start, n_end: (
        text.lower().split() == prompt_to_repeat.lower().split()[n_start:n_end]
    ),
}
