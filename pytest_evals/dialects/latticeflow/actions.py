"""Reads ``actions``: rules that exclude samples from a task's metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evals.dialects.latticeflow.filters import SampleFilter, read_filter
from pytest_evals.dialects.latticeflow.header import check_key
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import DocumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A rule: samples that match its filter are excluded from all metrics."""

    key: str
    filter: SampleFilter


def read_actions(definition: Section) -> tuple[Action, ...]:
    """Return the exclusion rules of a task; errors go to the section's problems."""
    found: dict[str, Action] = {}
    for entry in definition.entries("actions"):
        key = entry.text("key")
        if not key:
            entry.problem("key", "an action needs a key", "key: skip-empty")
        else:
            check_key(entry, "an action")
        entry.one_of("action", "action", ("exclude_from_metrics",), "")
        inner = entry.section("filter")
        if inner is None:
            fix = 'filter: {op: equals, expression: "{{ sample.split }}", value: train}'
            entry.problem("filter", "an action needs a filter", fix)
        one = read_filter(inner) if inner is not None else None
        entry.close("an action")
        if key in found:
            entry.problem("key", f"duplicate action {key!r}")
        if one is not None:
            found[key] = Action(key=key, filter=one)
    return tuple(found.values())


def excluding_action(actions: Sequence[Action], variables: Mapping[str, Any]) -> str:
    """Return the key of the first rule that matches a sample, or an empty string.

    Args:
        variables: ``sample``, ``solver_output`` and ``scores``.

    Raises:
        DocumentError: A filter cannot be evaluated.
    """
    for action in actions:
        try:
            if action.filter.matches(variables):
                return action.key
        except DocumentError as error:
            raise DocumentError(f"action {action.key!r}: {error}") from error
    return ""
