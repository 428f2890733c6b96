"""Parse a judge's reply: a label or a grade, its reasoning and its confidence.

A reply is a JSON object, alone, in a code fence or inside other text; or a bare label
or number. Reasoning (:mod:`pytest_evals.core.reasoning`) is removed. A reply with an
unknown label, a grade out of range or contradictory objects is an error, not a wrong
answer.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pytest_evals.core.reasoning import without_reasoning
from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError, abbreviated

_FENCED = re.compile(r"```[\w-]*+(.*?)```", re.DOTALL)
_MARKUP = re.compile(r"<[^<>]*>|```[\w-]*|\{[^{}]*\}")
_NUMBER = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_ALONE = re.compile(r"(?m)^\W*([\w.]+)\W*$")
_STATED = r"(?i)\b{}\b\W{{0,5}}(?:is\W+)?([\w.]+)"
_TAKEN_BACK = re.compile(
    r"(?i)\b(?:actually|but|correction|however|instead|on reflection|reconsider\w*|"
    r"on second thought|revis\w+|wait)\b"
)
_OPPOSITES = {
    True: re.compile(
        r"(?i)\b(?:fail(?:s|ed|ure)?|false|not?|cannot|never|nor|neither|incorrect|wrong)"
        r"\b|n['\u2019]t\b"
    ),
    False: re.compile(r"(?i)(?<!not )(?<!n't )\bpass(?:es|ed)?\b|\btrue\b"),
}
"""Verdict → words for the other one."""
_KEPT = ("reasoning", "confidence")
_MOST_SHOWN = 200
_VERDICTS = {
    **dict.fromkeys(("true", "yes", "y", "pass", "passes", "passed", "1"), True),
    **dict.fromkeys(("false", "no", "n", "fail", "fails", "failed", "0"), False),
}


@dataclass(frozen=True, slots=True)
class JudgeLabel:
    """The parsed reply of a judge. ``value``: the label as the task spells it, or the
    grade."""

    value: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_label(reply: str, keys: Sequence[str], labels: Sequence[str]) -> JudgeLabel:
    """Return the label of a reply. ``keys``: possible keys of the label in a JSON
    object; the first match is used. ``labels``: the valid labels; empty for any. Raises
    DocumentError if the reply has none of them."""
    found = read_json(reply, keys)
    value = _spoken(reply) if found is None else _first(found, keys)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool | int | float):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise DocumentError(f"the judge's reply has no label: {_shown(reply)}")
    label = _matching(value, labels) if labels else _bare(value)
    if label is None:
        expected = ", ".join(map(repr, labels))
        message = f"the judge's reply is not one of {expected}: {_shown(reply)}"
        raise DocumentError(message)
    return JudgeLabel(label, _metadata(reply, found))


def read_grade(reply: str, least: float, most: float) -> JudgeLabel:
    """Return the grade of a reply. Raises DocumentError if the grade is missing or out
    of range."""
    found = read_json(reply, ("score",))
    value: Any = _bare(_spoken(reply)) if found is None else _first(found, ("score",))
    try:
        grade = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        grade = math.nan
    if math.isnan(grade):
        raise DocumentError(f"the judge's reply has no score: {_shown(reply)}")
    if not least <= grade <= most:
        message = f"the judge's score {grade:g} is not between {least:g} and {most:g}"
        raise DocumentError(message)
    return JudgeLabel(grade, _metadata(reply, found))


def read_json(reply: str, keys: Sequence[str]) -> dict[str, Any] | None:
    """Return the JSON object of a reply that has one of these keys, ignoring case;
    ``None`` without such an object. Raises DocumentError if several objects contradict
    each other."""
    given = [one for one, *_ in objects_in(_spoken(reply), _consistent)]
    found = _with_keys(given, keys)
    if not found:  # {"rating": {"pass": true}}
        inner = [one for each in given for one in each.values()]
        found = _with_keys([one for one in inner if isinstance(one, dict)], keys)
    if any(_differ(one, found[0], keys) for one in found):
        raise DocumentError(f"the judge's reply contradicts itself: {_shown(reply)}")
    return found[0] if found else None


def reply_text(response: Response) -> str:
    """Return the text of a judge's reply. Raises DocumentError if it is missing, or the
    token limit has cut it off."""
    text = response.raise_for_error().text
    if response.finish == "length" and not text.rstrip().endswith(("}", "```")):
        raise DocumentError(f"the reply is cut off: {text[-200:]!r}")
    return text


def verdict(given: Any) -> bool | None:
    """Return what a value says about pass or fail; ``None`` for anything else."""
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    return _VERDICTS.get(str(given).strip().strip(".!").casefold())


def read_values(
    reply: str, keys: Sequence[str], *, are_verdicts: bool = False
) -> dict[str, Any]:
    """Return the JSON object of a reply that has one of these keys. The reply may also
    be the value of a single key, one word or number. ``are_verdicts``: whether values
    are pass or fail. Raises DocumentError if there is no such object, several
    contradict each other, or the text around it does: it may be quoted."""
    found = read_json(reply, keys)
    verdicts = {verdict(found.get(key)) for key in keys} if found else set()
    one = verdicts.pop() if are_verdicts and len(verdicts) == 1 else None
    if found is not None and _is_quoted(_spoken(reply), found, keys, one):
        message = "the text around the reply's object may contradict it"
        raise DocumentError(f"{message}: {_shown(reply)}")
    word = _bare(_spoken(reply))
    if found is None and len(keys) == 1 and len(word.split()) == 1:
        return {keys[0]: word}
    if found is None:
        raise DocumentError(f"the reply has no {listed(keys)}: {reply[:200]!r}")
    return found


def read_list(reply: str, key: str) -> list[Any]:
    """Return the list under a key of the JSON object of a reply. Raises DocumentError
    if it is missing or not a list, or several contradict each other."""
    found = read_values(reply, [key])[key]
    if not isinstance(found, list):
        raise DocumentError(f"{key} is not a list: {found!r:.80}")
    return found


def reason_of(found: Mapping[str, Any]) -> str:
    """Return the reason in a reply's object; empty if it is missing or not text."""
    reason = found.get("reason", found.get("reasoning", ""))
    return reason if isinstance(reason, str) else ""


def listed(keys: Sequence[str]) -> str:
    """Names in quotes, joined by ``and``."""
    return " and ".join(f'"{key}"' for key in keys)


def _with_keys(
    given: Iterable[Mapping[str, Any]], keys: Sequence[str]
) -> list[dict[str, Any]]:
    named = [_with_normal_keys(one, keys) for one in given]
    return [one for one in named if any(key in one for key in keys)]


def _spoken(reply: str) -> str:
    """The reply without its reasoning; empty if the reasoning was cut off. Tags in an
    object are text, which the judge may have quoted."""
    quoted = [(start, end) for _, start, end in objects_in(reply)]
    return without_reasoning(reply, quoted).strip()


def _with_normal_keys(found: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    known = {key.casefold(): key for key in (*keys, *_KEPT)}
    named = {name: name.translate(INVISIBLE).strip().casefold() for name in found}
    return _consistent([(known.get(named[one], one), found[one]) for one in found])


def _consistent(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of key-value pairs; an error if a key has two values."""
    found = dict(pairs)
    for key, value in pairs:
        if found[key] is not value and found[key] != value:
            raise DocumentError(f"the judge's reply contradicts itself: {key!r} twice")
    return found


def _first(found: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((found[key] for key in keys if key in found), None)


def _differ(one: Mapping[str, Any], other: Mapping[str, Any], keys: Any) -> bool:
    both = [key for key in keys if key in one and key in other]
    return _first(one, keys) != _first(other, keys) or any(
        one[key] != other[key] for key in both
    )


def _is_quoted(
    text: str, found: Mapping[str, Any], keys: Sequence[str], given: bool | None
) -> bool:
    """Whether an object may be a quotation: text follows in its line, or the text
    around it has another value or takes it back. ``given``: its verdict, if it has
    one."""
    spans = [(start, end) for _, start, end in objects_in(text)]
    before = _MARKUP.sub("", text[: spans[0][0]])
    after = _MARKUP.sub("", text[spans[-1][1] :])
    if re.search(r"\w", after.partition("\n")[0]) or _TAKEN_BACK.search(after):
        return True
    near = f"{before.rpartition(chr(10))[2]}\n{after}"
    if given is not None and _OPPOSITES[given].search(near):
        return True
    whole = f"{before}\n{after}"
    stated = {
        key: re.findall(_STATED.format(re.escape(key)), whole)
        for key in keys
        if key in found
    }
    if len(keys) == 1 and keys[0] in found:
        stated[keys[0]] += re.findall(_STATED.format("verdict"), whole)
        stated[keys[0]] += _ALONE.findall(after)
    return any(
        _is_other(one, found[key]) for key, texts in stated.items() for one in texts
    )


def _is_other(text: str, value: Any) -> bool:
    text, given = text.strip("._"), str(value).strip()
    if verdict(text) is not None and verdict(value) is not None:
        return verdict(text) is not verdict(value)
    return all(map(_NUMBER.fullmatch, (text, given))) and float(text) != float(given)


def _matching(value: str, labels: Sequence[str]) -> str | None:
    """The valid label that equals a text, exactly or ignoring case and quotes."""
    if value.strip() in labels:
        return value.strip()
    folded = _bare(value).casefold()
    same = [label for label in labels if label.strip().casefold() == folded]
    return same[0] if len(same) == 1 else None


def _bare(text: str) -> str:
    """The text without a code fence, quotes and a trailing full stop."""
    fenced = _FENCED.fullmatch(text.strip())
    bare = (fenced[1] if fenced else text).strip()
    return bare.removesuffix(".").strip("\"'`*").strip().removesuffix(".")


def _metadata(reply: str, found: Mapping[str, Any] | None) -> dict[str, Any]:
    kept = {key: found[key] for key in _KEPT if key in found} if found else {}
    return {**kept, "raw": reply}


def _shown(reply: str) -> str:
    return repr(abbreviated(reply, _MOST_SHOWN))


# Objects that are nearly JSON: with raw line breaks in strings, comments, commas before
# a closing bracket, and Python's literals. Nothing is completed: an object without its
# end is none.
Pairs = list[tuple[str, Any]]
_TOKEN = re.compile(
    r"""(?xs) "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\\n])*' | //[^\n]* | /\*.*?\*/ | [{}]"""
)
_COMMENT_OR_STRING = re.compile(
    r"""(?xs) ("(?:\\.|[^"\\])*") | //[^\n]* | /\*.*?\*/ | ,(?=\s*[}\]])"""
)
INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
"""Characters without width, which some models write into names."""
LONGEST = 100_000  # characters of a reply that are searched
MOST_REPAIRS = 100  # braces in a reply that begin no JSON

MOST_TOKENS = 2000  # strings and braces of an object that is repaired


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
    with suppress(ValueError, RecursionError):
        return decoder.decode(plain)
    try:
        return _literal(ast.parse(text.strip(), mode="eval").body, hook)
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
