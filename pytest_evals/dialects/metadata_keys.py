"""Keys of this package under ``metadata``, and detection of misspelled ones.

lm-eval accepts any key in ``metadata``, so a misspelled key is not an error there. Here
it could be a gate that is never evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evals.core.reasoning import REFUSALS as WAYS
from pytest_evals.errors import suggestion
from pytest_evals.prompts.document_warnings import ALLOWED

CHOICES = "choices"  # how documents with choices are answered
REFUSALS = "refusals"  # whether a refusal is an error or an answer
OWN_METADATA: Mapping[str, tuple[type, ...]] = {
    "gates": (list, dict, str),
    CHOICES: (str,),
    REFUSALS: (str,),
    ALLOWED: (bool, str, int),
}
"""Key → types of its values. They are not part of the metadata of tasks and results."""

_CONDITION = re.compile(r"\s*[^\s<>]+\s*[<>]=?\s*[+-]?[\d.]+%?\s*")


def without_own(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without our keys."""
    return {key: one for key, one in metadata.items() if key not in OWN_METADATA}


def refusals_fault(given: object) -> str:
    """Return why a value of ``refusals`` is invalid; empty if it is valid."""
    if given in WAYS:
        return ""
    hint = suggestion(given, WAYS) if isinstance(given, str) else ""
    return f"expected error or answer, not {given!r:.60}{hint}"


def misspelled_keys(metadata: object) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield keys that resemble one of ours: the path of each, and our key."""
    for key, value in _entries(metadata):
        name = str(key)
        near = [
            our_key
            for our_key, kinds in OWN_METADATA.items()
            if type(value) in kinds and name != our_key and _is_similar(name, our_key)
        ]
        if not near and name not in OWN_METADATA and _has_conditions(value):
            near = ["gates"]
        if near:
            yield (key,), near[0]
        elif name not in OWN_METADATA:
            for nested, _ in _entries(value):  # one level too deep
                if nested in OWN_METADATA:
                    yield (key, nested), str(nested)


def _entries(metadata: object) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values; the keys of a list are positions."""
    if isinstance(metadata, Mapping):
        yield from metadata.items()
    elif isinstance(metadata, list):
        yield from enumerate(metadata)


def _is_similar(name: str, known: str) -> bool:
    """Return whether two names differ in case, non-letters, plural, surrounding words,
    or by one missing, additional or transposed letter."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)  # qualityGates
    words = re.sub(r"[^a-z]+", "_", split.casefold()).strip("_")
    stem = known.removesuffix("s")
    if re.search(rf"(?:^|_){stem}s?(?:_|$)", words):
        return True
    letters_, own_letters = words.replace("_", ""), known.replace("_", "")
    return letters_ in (own_letters, stem.replace("_", "")) or letters_ in _typos(
        own_letters
    )


def _typos(name: str) -> set[str]:
    cuts = [(name[:i], name[i:]) for i in range(len(name) + 1)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    fewer = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {h + t[1] + t[0] + t[2:] for h, t in cuts if len(t) > 1}
    more = {head + letter + tail for head, tail in cuts for letter in letters}
    return fewer | swapped | more


def _has_conditions(value: object) -> bool:
    listed = value if isinstance(value, list) else [value]
    return any(isinstance(one, str) and _CONDITION.fullmatch(one) for one in listed)
