"""What a judge's reply says: a label or a grade, its reasoning and how sure it is.

A reply is a JSON object, alone, fenced or with words around it; or a bare label or
number. What the judge thinks aloud before it is no part of it. A reply that says none
of the labels, a grade out of range, or two different things, says nothing: that is no
wrong answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.errors import DocumentError

_FENCED = re.compile(r"```[\w-]*+(.*?)```", re.DOTALL)
_KEPT = ("reasoning", "confidence")
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class JudgeLabel:
    """What a judge says.

    Args:
        value: The label as the task spells it, or the grade.
        metadata: Reasoning, confidence and the reply itself.
    """

    value: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_label(reply: str, keys: Sequence[str], labels: Sequence[str]) -> JudgeLabel:
    """The label of a reply.

    Args:
        reply: What the judge wrote.
        keys: Names that it may have in a JSON object; the first one counts.
        labels: All labels there are; empty for any.

    Raises:
        DocumentError: It says none of them.
    """
    found = read_json(reply, keys)
    said = _spoken(reply) if found is None else _first(found, keys)
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    if isinstance(said, bool | int | float):
        said = str(said)
    if not isinstance(said, str) or not said.strip():
        raise DocumentError(f"the judge's reply has no label: {_shown(reply)}")
    label = _matching(said, labels) if labels else _bare(said)
    if label is None:
        listed = ", ".join(map(repr, labels))
        raise DocumentError(f"the judge's reply is none of {listed}: {_shown(reply)}")
    return JudgeLabel(label, _metadata(reply, found))


def read_grade(reply: str, least: float, most: float) -> JudgeLabel:
    """The grade of a reply.

    Raises:
        DocumentError: It has none, or one that is out of range.
    """
    found = read_json(reply, ("score",))
    said: Any = _bare(_spoken(reply)) if found is None else _first(found, ("score",))
    try:
        grade = math.nan if isinstance(said, bool) else float(said)
    except (TypeError, ValueError):
        grade = math.nan
    if math.isnan(grade):
        raise DocumentError(f"the judge's reply has no score: {_shown(reply)}")
    if not least <= grade <= most:
        raise DocumentError(
            f"the judge's score {grade:g} is not between {least:g} and {most:g}"
        )
    return JudgeLabel(grade, _metadata(reply, found))


def read_json(reply: str, keys: Sequence[str]) -> dict[str, Any] | None:
    """The JSON object of a reply that has one of these keys, in letters of any case;
    ``None`` if there is none.

    Raises:
        DocumentError: There are several, and they say different things.
    """
    spoken = _spoken(reply)
    fenced = [one[1] for one in _FENCED.finditer(spoken)]
    for texts in (fenced, [spoken]):
        given = [found for text in texts for found in _objects(text)]
        named = [_named(found, keys) for found in given]
        found = [one for one in named if any(key in one for key in keys)]
        if any(_first(one, keys) != _first(found[0], keys) for one in found):
            raise DocumentError(f"the judge says different things: {_shown(reply)}")
        if found:
            return found[0]
    return None


def _spoken(reply: str) -> str:
    """A reply without what was thought aloud; nothing, if that has no end."""
    return reply.rpartition("</think>")[2].partition("<think>")[0].strip()


def _named(found: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """An object with its keys as they should be written."""
    known = {key.casefold(): key for key in (*keys, *_KEPT)}
    return {known.get(name.casefold(), name): one for name, one in found.items()}


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        if isinstance(found, dict):
            yield found
        at = text.find("{", end)


def _first(found: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((found[key] for key in keys if key in found), None)


def _matching(said: str, labels: Sequence[str]) -> str | None:
    """The label that is said, by its letters; else whatever its case and quotes."""
    if said.strip() in labels:
        return said.strip()
    wanted = _bare(said).casefold()
    same = [label for label in labels if label.strip().casefold() == wanted]
    return same[0] if len(same) == 1 else None


def _bare(text: str) -> str:
    """Without fences, quotes and a full stop around it."""
    fenced = _FENCED.fullmatch(text.strip())
    bare = (fenced[1] if fenced else text).strip()
    return bare.removesuffix(".").strip("\"'`*").strip().removesuffix(".")


def _metadata(reply: str, found: Mapping[str, Any] | None) -> dict[str, Any]:
    kept = {key: found[key] for key in _KEPT if key in found} if found else {}
    return {**kept, "raw": reply}


def _shown(reply: str) -> str:
    return repr(reply if len(reply) <= _MOST_SHOWN else reply[: _MOST_SHOWN - 1] + "…")
