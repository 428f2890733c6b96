"""``anchor``: a second baseline of a gate, with a margin of its own. An entry with an
anchor is two gates, so that small drops from release to release do not add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.errors import Place, Problem, TaskFileError, did_you_mean
from pytest_evals.gates.read.entry import read_gate
from pytest_evals.gates.read.text import fit_for_id

_MARGINS = ("max_drop", "max_rise", "recovery")
_KEYS = ("baseline", *_MARGINS)
_EXAMPLE = "anchor: {baseline: v1, max_drop: 0.05}"


def read_gates(
    entry: object,
    *,
    task: str,
    source: Place,
    defaults: Mapping[object, object] | None = None,
) -> tuple[Gate, ...]:
    """The gate of an entry of a ``gates:`` list, and the gate on its anchor.

    Args:
        entry: Text such as ``acc >= 0.75``, or a mapping.
        task: Name of the task or group of the list; empty if each entry names its own.
        source: File and line of the entry.
        defaults: Keys for gates that count noise.

    Raises:
        TaskFileError: With all problems of the entry.
    """

    def read(one: object) -> Gate:
        return read_gate(one, task=task, source=source, defaults=defaults or {})

    if not isinstance(entry, Mapping) or "anchor" not in entry:
        return (read(entry),)
    usual = {key: value for key, value in entry.items() if key != "anchor"}
    fault, fix = _fault(entry)
    try:
        gate = read(usual)
    except TaskFileError as error:
        if fault:
            raise TaskFileError(
                [*error.problems, Problem(fault, source, fix)]
            ) from None
        raise
    if fault:
        raise TaskFileError([Problem(fault, source, fix)])
    anchored = replace(read(_on_anchor(usual, entry["anchor"])), is_anchor=True)
    return gate, anchored


def _fault(entry: Mapping[object, Any]) -> tuple[str, str]:
    """What is wrong with an anchor and how to fix it; empty if nothing is."""
    anchor = entry["anchor"]
    if "baseline" not in entry:
        what = "an anchor is a second baseline, and this gate has no first one"
        return what, "baseline: main"
    if isinstance(anchor, Mapping):
        if fault := _mapping_fault(anchor):
            return fault, _EXAMPLE
        anchor = anchor["baseline"]
    if isinstance(anchor, bool) or not isinstance(anchor, str | int) or anchor == "":
        return f"an anchor is a baseline's name or a mapping, not {anchor!r}", _EXAMPLE
    if str(anchor) == str(entry["baseline"]):
        what = f"the anchor is the gate's own baseline, {str(anchor)!r}"
        return what, "name the baseline of an earlier release"
    return "", ""


def _mapping_fault(anchor: Mapping[object, Any]) -> str:
    for key in anchor:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS) or f"; known: {', '.join(_KEYS)}"
            return f"anchor has no key {key!r}{hint}"
    if "baseline" not in anchor:
        return "the anchor names no baseline"
    margins = [key for key in _MARGINS if key in anchor]
    if len(margins) > 1:
        return f"an anchor has one margin, and this has {' and '.join(margins)}"
    return ""


def _on_anchor(entry: Mapping[object, Any], anchor: Any) -> dict[object, Any]:
    """The entry of the gate on the anchor; without a margin of its own it has that of
    the gate."""
    given = anchor if isinstance(anchor, Mapping) else {"baseline": anchor}
    has_margin = any(key in given for key in _MARGINS)
    dropped = {"each", *(_MARGINS if has_margin else ())}
    kept = {key: value for key, value in entry.items() if key not in dropped}
    name = PurePath(str(given["baseline"])).name  # of a run's folder, its last part
    if "id" in kept:
        kept["id"] = fit_for_id(f"{kept['id']}-vs-{name}")
    return {**kept, **given}
