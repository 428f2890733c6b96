"""The keys under ``metadata`` that are ours, and keys that were meant for one of them.

lm-eval keeps whatever ``metadata`` contains, so a misspelt key is no error there. Here
it would be, say, a gate that is never evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.prompts.identical_prompts import ALLOWED

OWN_METADATA: Mapping[str, tuple[type, ...]] = {
    "gates": (list, dict, str),
    ALLOWED: (bool, str, int),
}
"""Each key with the kinds of its values. Tasks and results do not get these as
metadata."""

_CLAIM = re.compile(r"\s*[^\s<>]+\s*[<>]=?\s*[+-]?[\d.]+%?\s*")
"""The short form of a gate."""


def without_own(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata without our keys."""
    return {key: one for key, one in metadata.items() if key not in OWN_METADATA}


def misspelt(metadata: object) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The keys that are probably meant for one of ours: the way to each, and ours."""
    for key, value in _entries(metadata):
        name = str(key)
        near = [
            own
            for own, kinds in OWN_METADATA.items()
            if type(value) in kinds and name != own and _is_near(name, own)
        ]
        if not near and name not in OWN_METADATA and _holds_claims(value):
            near = ["gates"]
        if near:
            yield (key,), near[0]
        elif name not in OWN_METADATA:
            for way, own in _inside(value):
                yield (key, *way), own


def _entries(metadata: object) -> Iterator[tuple[Any, Any]]:
    """Keys and values; those of a list have their position."""
    if isinstance(metadata, Mapping):
        yield from metadata.items()
    elif isinstance(metadata, list):
        yield from enumerate(metadata)


def _inside(value: object) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Keys of ours that are one level too deep."""
    for key, _ in _entries(value):
        if key in OWN_METADATA:
            yield (key,), str(key)


def _is_near(name: str, own: str) -> bool:
    """Whether two names differ in case, in signs that are no letters, in a plural, in
    words around, or by one letter too many, too few or out of order."""
    words = re.sub(r"[^a-z]+", "_", _apart(name).casefold()).strip("_")
    stem = own.removesuffix("s")
    if re.search(rf"(?:^|_){stem}s?(?:_|$)", words):
        return True
    mine, ours = words.replace("_", ""), own.replace("_", "")
    return mine in (ours, stem.replace("_", "")) or mine in _slips(ours)


def _apart(name: str) -> str:
    """``qualityGates`` as ``quality_Gates``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)


def _slips(name: str) -> set[str]:
    cuts = [(name[:i], name[i:]) for i in range(len(name) + 1)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    fewer = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {h + t[1] + t[0] + t[2:] for h, t in cuts if len(t) > 1}
    more = {head + letter + tail for head, tail in cuts for letter in letters}
    return fewer | swapped | more


def _holds_claims(value: object) -> bool:
    listed = value if isinstance(value, list) else [value]
    return any(isinstance(one, str) and _CLAIM.fullmatch(one) for one in listed)
