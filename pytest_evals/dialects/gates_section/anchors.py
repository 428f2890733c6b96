"""Reads ``anchor``: a second baseline of a gate, with its own margin. An entry with an
anchor becomes two gates, so that small drops from release to release cannot add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.errors import Place, Problem, TaskFileError, suggestion
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
    """Return the gate of an entry of a ``gates:`` list, and the gate on its anchor.

    Args:
        entry: A string such as ``acc >= 0.75``, or a mapping.
        task: Name of the task or group; empty if each entry names its own.
        defaults: Default keys for gates with statistical tests.
    """

    def read(one: object) -> Gate:
        return read_gate(one, task=task, source=source, defaults=defaults or {})

    if not isinstance(entry, Mapping) or "anchor" not in entry:
        return (read(entry),)
    usual = {key: value for key, value in entry.items() if key != "anchor"}
    error_text, fix = _anchor_error(entry)
    try:
        gate = read(usual)
    except TaskFileError as error:
        if error_text:
            raise TaskFileError(
                [*error.problems, Problem(error_text, source, fix)]
            ) from None
        raise
    if error_text:
        raise TaskFileError([Problem(error_text, source, fix)])
    anchored = replace(read(_anchor_entry(usual, entry["anchor"])), is_anchor=True)
    return gate, anchored


def _anchor_error(entry: Mapping[object, Any]) -> tuple[str, str]:
    """Return the error of an anchor and its fix; both empty without an error."""
    anchor = entry["anchor"]
    if "baseline" not in entry:
        what = "an anchor is a second baseline, but this gate has no baseline"
        return what, "baseline: main"
    if isinstance(anchor, Mapping):
        if error_text := _mapping_error(anchor):
            return error_text, _EXAMPLE
        anchor = anchor["baseline"]
    if isinstance(anchor, bool) or not isinstance(anchor, str | int) or anchor == "":
        return (
            f"an anchor must be the name of a baseline or a mapping, not {anchor!r}",
            _EXAMPLE,
        )
    if str(anchor) == str(entry["baseline"]):
        what = f"the anchor is the gate's own baseline, {str(anchor)!r}"
        return what, "name the baseline of an earlier release"
    return "", ""


def _mapping_error(anchor: Mapping[object, Any]) -> str:
    for key in anchor:
        if key not in _KEYS:
            hint = suggestion(str(key), _KEYS)
            return f"anchor has no key {key!r}{hint}"
    if "baseline" not in anchor:
        return "the anchor needs a baseline"
    margins = [key for key in _MARGINS if key in anchor]
    if len(margins) > 1:
        return f"an anchor has one margin, but this one has {' and '.join(margins)}"
    return ""


def _anchor_entry(entry: Mapping[object, Any], anchor: Any) -> dict[object, Any]:
    """Return the entry of the gate on the anchor, with its own or the gate's margin."""
    given = anchor if isinstance(anchor, Mapping) else {"baseline": anchor}
    has_margin = any(key in given for key in _MARGINS)
    dropped = {"each", *(_MARGINS if has_margin else ())}
    kept = {key: value for key, value in entry.items() if key not in dropped}
    name = PurePath(str(given["baseline"])).name  # of a run's folder, its last part
    if "id" in kept:
        kept["id"] = fit_for_id(f"{kept['id']}-vs-{name}")
    return {**kept, **given}
