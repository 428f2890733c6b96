"""Objects in replies of judges that are nearly JSON.

Read are raw line breaks in strings, comments, commas before a closing bracket, and
Python's literals. Nothing is completed: an object without its end is none.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

Pairs = list[tuple[str, Any]]
_TOKEN = re.compile(
    r"""(?xs) "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\\n])*' | //[^\n]* | /\*.*?\*/ | [{}]"""
)
_COMMENT_OR_STRING = re.compile(
    r"""(?xs) ("(?:\\.|[^"\\])*") | //[^\n]* | /\*.*?\*/ | ,(?=\s*[}\]])"""
)
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
"""Characters without width, which some models write into names."""
LONGEST = 100_000
"""Characters of a reply that are searched."""
MOST_REPAIRS = 100
"""Braces in a reply that begin no JSON."""

MOST_TOKENS = 2000
"""Strings and braces of an object that is repaired."""


def objects_in(
    text: str, hook: Callable[[Pairs], dict[str, Any]] = dict
) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield the objects of a text that are in no other one, each with its start and
    end. ``hook`` makes an object of its keys and values."""
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=hook)
    at, left = text.find("{", 0, LONGEST), MOST_REPAIRS
    while at >= 0 and left:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            left -= 1
            end = _end_of_object(text, at)
            found = _repaired(text[at:end], decoder, hook) if end else None
        if isinstance(found, dict):
            yield found, at, end
            at = text.find("{", end, LONGEST)
        else:
            at = text.find("{", at + 1, LONGEST)


def _end_of_object(text: str, start: int) -> int:
    """The position after the brace that closes an object, 0 without one."""
    depth = 0
    for token in islice(_TOKEN.finditer(text, start, LONGEST), MOST_TOKENS):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if not depth:
            return token.end()
    return 0


def _repaired(
    text: str, decoder: json.JSONDecoder, hook: Callable[[Pairs], dict[str, Any]]
) -> Any:
    plain = _COMMENT_OR_STRING.sub(lambda found: found[1] or "", text)
    try:
        return decoder.decode(plain)
    except (ValueError, RecursionError):
        pass
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _literal(tree, hook)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def _literal(tree: ast.expr, hook: Callable[[Pairs], dict[str, Any]]) -> Any:
    """A Python literal whose mappings have names."""
    if not isinstance(tree, ast.Dict):
        return ast.literal_eval(tree)
    pairs = Pairs()
    for key, value in zip(tree.keys, tree.values, strict=True):
        name = None if key is None else ast.literal_eval(key)
        if not isinstance(name, str):
            raise ValueError
        pairs.append((name, _literal(value, hook)))
    return hook(pairs)
