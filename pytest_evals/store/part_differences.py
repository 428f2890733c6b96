"""Why parts are not those of one run: parts that are missing, twice or incomplete, and
settings, models and tasks that differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from pytest_evals.store.parts import StoredPart
from pytest_evals.store.run_settings import mapping_at

_FREE = frozenset(
    {
        *("shard", "dir", "run-dir", "json", "html", "markdown", "export", "merge"),
        *("save-baseline", "save-failed", "cache", "junit", "fast-path", "device"),
        *("batch-tokens", "write-out", "ray"),
    }
)
"""Options that change no number: where files are, and how a job computes."""
_OF_MACHINE = frozenset(
    {
        *("usage", "latency", "device", "device_name", "device_map", "batch_tokens"),
        *("first_tokens", "scoring_path"),
    }
)
"""Facts about a model that depend on the machine or on the documents of a part."""
_MOST = 8  # Differences that a message lists
_LONGEST = 60  # Characters of a value
MISSING = object()  # A value that a part does not have
_MODEL = "model's "


def part_faults(parts: Sequence[StoredPart]) -> list[str]:
    """Return why parts cannot be merged, each as a sentence; the cause first."""
    unfinished = [
        f"{_shown(part)} is not complete: {part.facts['partial']}; run it again"
        for part in parts
        if part.facts["partial"]
    ]
    found = [*_numbers(parts), *unfinished, *_differences(parts)]
    if not found:
        found = [line for part in parts for line in part.damage()]
    more = len(found) - _MOST
    return [*found[:_MOST], *([f"and {more} more"] if more > 0 else [])]


def _numbers(parts: Sequence[StoredPart]) -> Iterator[str]:
    sizes = sorted({part.n for part in parts})
    if len(sizes) > 1:
        firsts = (next(one for one in parts if one.n == n) for n in sizes)
        texts = (f"{one.number}/{one.n} ({one.path})" for one in firsts)
        yield f"the parts are of several runs: {', '.join(texts)}"
        return
    counts = Counter(part.number for part in parts)
    for number, n in sorted(counts.items()):
        if n > 1:
            places = [str(one.path) for one in parts if one.number == number]
            yield f"part {number} is there {n} times: {', '.join(places)}; pass one"
    if n := sizes[0] - len(counts):
        missing = (one for one in range(1, sizes[0] + 1) if one not in counts)
        s = "s" * (n > 1)
        listed = ", ".join(map(str, islice(missing, _MOST))) + ", …" * (n > _MOST)
        are = "are" if s else "is"
        yield f"part{s} {listed} of {sizes[0]} {are} missing"


def _differences(parts: Sequence[StoredPart]) -> Iterator[str]:
    """Compare each part with the first."""
    first, *others = parts
    named = set[str]()
    for other in others:
        both = _facts(first), _facts(other)
        # A part without documents has opened no model.
        opened = all(mapping_at(one.results, "model_info") for one in (first, other))
        for message in {**both[0], **both[1]}:
            values = [one.get(message, MISSING) for one in both]
            text = difference(*values)
            is_compared = opened or not message.startswith(_MODEL)
            if text and is_compared and message not in named:
                named.add(message)
                places = _shown(first), _shown(other)
                yield f"{message}: {text[0]} in {places[0]}, {text[1]} in {places[1]}"


def difference(old: object, new: object) -> tuple[str, str] | None:
    """Return two values as texts around their difference; ``None`` if equal."""
    if _json(old) == _json(new):
        return None
    texts = [*map(_text, (old, new))]
    pairs = zip(*texts, strict=False)
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if start > _LONGEST // 2:
        texts = [f"…{one[start - _LONGEST // 4 :]}" for one in texts]
    first, second = (
        one if len(one) <= _LONGEST else f"{one[:_LONGEST]}…" for one in texts
    )
    return first, second


def _facts(part: StoredPart) -> dict[str, Any]:
    """Return what must be equal, by names that a reader knows; causes first."""
    results, facts = part.results, part.facts
    options = mapping_at(results, "options")
    dashed = {name.replace("_", "-"): value for name, value in options.items()}
    return {
        "version of pytest-model-evals": results.get("pytest_evals_version"),
        "model": options.get("model") or results.get("model_name"),
        **_named("option {}", dashed, _FREE),
        **_named("selection by {}", facts["command"], {"options"}),
        **_named(_MODEL + "{}", mapping_at(results, "model_info"), _OF_MACHINE),
        **_nested(mapping_at(results, "judges"), "{}'s {}", _OF_MACHINE),
        "tasks": sorted(facts["tasks"]),
        **_nested(mapping_at(results, "configs"), "{}: {}", {"metadata"}),
        **_named("{}: version", mapping_at(results, "versions"), ()),
        **_nested(facts["tasks"], "{}: {}", ()),
        "cut into parts (by costs of different earlier runs?)": facts["cut"],
    }


def _named(
    form: str, found: Mapping[str, Any], without: Container[str]
) -> dict[str, Any]:
    return {form.format(k): v for k, v in found.items() if k not in without}


def _nested(
    found: Mapping[str, Any], form: str, without: Container[str]
) -> dict[str, Any]:
    return {
        form.format(name, key): value
        for name, inside in found.items()
        if isinstance(inside, Mapping)
        for key, value in inside.items()
        if key not in without
    }


def _json(value: object) -> str:
    return "" if value is MISSING else json.dumps(value, sort_keys=True, default=str)


def _text(value: object) -> str:
    if value is MISSING:
        return "missing"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return " ".join(text.split()) or "''"


def _shown(part: StoredPart) -> str:
    return f"part {part.number} ({part.path})"
