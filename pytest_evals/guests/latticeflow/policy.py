"""Reads policies: rules on metric values, applied as gates of tasks.

A rule covers all values with its metric's name. It becomes a gate on each value whose
name is known in advance. If none matches, it becomes a gate on each task in its scope
whose value names are known only after scoring; otherwise one on the first task, where
the metric is reported as missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, cast

from pytest_evals.core.gate import Bound, Gate
from pytest_evals.gates.read.text import ConditionError, fit_for_id, read_number
from pytest_evals.guests.latticeflow.entities import Entity
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.metrics.measures import ScorerValue

_OPERATORS: Mapping[str, tuple[str, ...]] = {
    ">": (">",),
    ">=": (">=",),
    "=": (">=", "<="),
    "<": ("<",),
    "<=": ("<=",),
}
_EVERYTHING = "all_latest"


class PolicySubject(NamedTuple):
    """A metric value of a task; ``None`` if its names are known only after scoring."""

    evaluation: str
    specification: str
    value: ScorerValue | None


_SCOPE: Mapping[str, Callable[[PolicySubject], str]] = {
    "evaluation_keys": lambda one: one.evaluation,
    "task_specification_keys": lambda one: one.specification,
    "scorer_keys": lambda one: "" if one.value is None else one.value.scorer,
    "metric_keys": lambda one: "" if one.value is None else one.value.metric,
}
"""Key of a scope → the key that it restricts; empty if it is missing."""


class PolicyRule(NamedTuple):
    """One rule."""

    gate: Gate  # without a task; it has no bounds if the value only has to exist
    scope: Mapping[str, frozenset[str]]  # key of _SCOPE → allowed keys


def gates_of(
    rules: Sequence[PolicyRule], subjects: Sequence[PolicySubject]
) -> Mapping[str, tuple[Gate, ...]]:
    """Return the gates of each task, by the key of its specification."""
    found: dict[str, list[Gate]] = {}
    for rule in rules:
        covered = _covered(rule, subjects)
        times = Counter(task for task, _ in covered)
        for task, metric in covered:
            gate = replace(rule.gate, task=task, metric=metric)
            if times[task] > 1:
                gate = replace(gate, id=fit_for_id(f"{gate.id}-{metric}"))
            found.setdefault(task, []).append(gate)
    return {key: tuple(gates) for key, gates in found.items()}


def _covered(
    rule: PolicyRule, subjects: Sequence[PolicySubject]
) -> list[tuple[str, str]]:
    metric = rule.gate.metric
    in_scope = [
        one
        for one in subjects
        if all(_SCOPE[key](one) in {"", *keys} for key, keys in rule.scope.items())
    ]
    known = [
        (one.specification, one.value)
        for one in in_scope
        if one.value is not None and not one.value.later
    ]
    named = [(task, x.how.name) for task, x in known if x.name == metric]
    named = named or [(task, metric) for task, x in known if x.how.name == metric]
    if named:
        return list(dict.fromkeys(named))
    unnamed = [
        (one.specification, one.value.prefix if one.value is not None else "")
        for one in in_scope
        if one.value is None or one.value.later
    ]
    unnamed.sort(key=lambda one: metric.startswith(one[1]))
    if unnamed:
        return [
            (task, metric if metric.startswith(prefix) else prefix + metric)
            for task, prefix in dict(unnamed).items()
        ]
    # Not the bare name: a value outside the scope may have it.
    scope = " and ".join(f"{k} {', '.join(sorted(v))}" for k, v in rule.scope.items())
    lacking = f"{metric} of {scope}" if scope else metric
    return [(one.specification, lacking) for one in (in_scope or subjects)[:1]]


def read_policy(entity: Entity) -> tuple[PolicyRule, ...]:
    """Return the rules of a policy."""
    top = Keys(entity.file, [])
    policy = top.header("a policy", ("key", "display_name"))
    rules: dict[str, PolicyRule] = {}
    fix, message = "[{key: …, definition: …}]", "a policy needs rules"
    for entry in top.required_entries("rules", fix, message):
        one = _rule(entry, policy)
        if one.gate.id in rules:
            entry.problem("key", f"duplicate rule {entry.values.get('key')!r}")
        rules[one.gate.id] = one
    top.finish("a policy")
    return tuple(rules.values())


def _rule(entry: Keys, policy: str) -> PolicyRule:
    key = entry.required_key("a rule", "accuracy")
    name = entry.required_name("display_name", '"…"')
    entry.text("description")
    scope = _scope(entry)
    fix = "{type: exists, metric: accuracy}"
    section = entry.required_section("definition", fix, "a rule needs a definition")
    metric, bounds = _definition(section)
    entry.close("a rule")
    condition = " and ".join(map(str, bounds)) or "exists"
    gate = Gate(
        id=fit_for_id(f"{policy}.{key}"),
        task="",
        metric=metric,
        bounds=bounds,
        text=f"{name}: {metric} {condition}",
        source=entry.place(),
        foreign=True,
        allows_missing=True,  # its means are over the samples that have a score
    )
    return PolicyRule(gate, scope)


def _definition(section: Keys) -> tuple[str, tuple[Bound, ...]]:
    kind = section.one_of("type", "type of rule", ("threshold", "exists"), "")
    metric = section.required_name("metric", "accuracy", "a rule needs a metric")
    bounds: tuple[Bound, ...] = ()
    if kind == "threshold":
        op = section.one_of("operator", "operator", tuple(_OPERATORS), "")
        value = _threshold(section)
        bounds = tuple(Bound(cast("Any", one), value) for one in _OPERATORS.get(op, ()))
    section.close(f"a rule of type {kind}" if kind else "the definition of a rule")
    return metric, bounds


def _threshold(section: Keys) -> Decimal:
    """Return the threshold, read as in other gates; strings are not accepted."""
    given = section.raw("threshold")
    message, fix = f"threshold must be a number, not {given!r:.80}", "threshold: 0.5"
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return read_number(given, "threshold")
        except ConditionError as error:
            message, fix = error.message, error.fix
    section.problem("threshold", message, fix)
    return Decimal(0)


def _scope(entry: Keys) -> Mapping[str, frozenset[str]]:
    given = entry.raw("scope")
    if given is None or given == _EVERYTHING:
        return {}
    if not isinstance(given, dict):
        message = f"scope must be {_EVERYTHING!r} or lists of keys, not {given!r}"
        entry.problem("scope", message, f"scope: {_EVERYTHING}")
        return {}
    section = entry.required_section("scope", f"scope: {_EVERYTHING}")
    found = {
        key: frozenset(map(str, section.take(key, list, [])))
        for key in _SCOPE
        if section.raw(key) is not None
    }
    section.close("a scope")
    return found
