"""Reads policies: rules on metric values, applied as gates of tasks.

A rule covers all values with its metric's name. It becomes a gate on each value whose
name is known in advance. If none matches, it becomes a gate on each task in its scope
whose value names are known only after scoring; otherwise one on the first task, where
the metric is reported as missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, cast

from pytest_evals.core.gate import Bound, Gate
from pytest_evals.dialects.latticeflow.entities import Entity
from pytest_evals.dialects.latticeflow.fields import check_key, read_header
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.gates.read.text import ConditionError, fit_for_id, read_number

_OPERATORS: Mapping[str, tuple[str, ...]] = {
    ">": (">",),
    ">=": (">=",),
    "=": (">=", "<="),
    "<": ("<",),
    "<=": ("<=",),
}
_SCOPE_KEYS = (
    "evaluation_keys",
    "task_specification_keys",
    "scorer_keys",
    "metric_keys",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySubject:
    """A metric value of a task. ``name`` is its final name, ``own`` the metric's name
    of it; both are empty if names are known only after scoring. ``prefix`` precedes
    those names."""

    evaluation: str
    specification: str
    scorer: str = ""
    metric: str = ""
    name: str = ""
    own: str = ""
    prefix: str = ""

    def final_name(self, metric: str) -> str:
        """Return the final name of a value whose name is known only after scoring."""
        return metric if metric.startswith(self.prefix) else self.prefix + metric


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """One rule.

    Args:
        id: Last part of the node ids of its gates.
        bounds: Thresholds; empty if the value only has to exist.
        scope: Key of :data:`_SCOPE_KEYS` → allowed keys; empty for everything.
    """

    id: str
    metric: str
    bounds: tuple[Bound, ...]
    scope: Mapping[str, frozenset[str]]
    text: str
    place: Place

    @property
    def scope_text(self) -> str:
        """Return the scope as text: ``scorer_keys exact``."""
        parts = (f"{key} {', '.join(sorted(one))}" for key, one in self.scope.items())
        return " and ".join(parts)

    def covers(self, subject: PolicySubject) -> bool:
        """Return whether a metric value is in scope."""
        keys = {
            "evaluation_keys": subject.evaluation,
            "task_specification_keys": subject.specification,
            "scorer_keys": subject.scorer,
            "metric_keys": subject.metric,
        }
        return all(
            not keys[k] or keys[k] in allowed for k, allowed in self.scope.items()
        )

    def gate(self, task: str, metric: str) -> Gate:
        """Return the rule as a gate of a task."""
        return Gate(
            id=self.id,
            task=task,
            metric=metric,
            bounds=self.bounds,
            text=self.text,
            source=self.place,
            foreign=True,
            allows_missing=True,  # its means are over the samples that have a score
        )


def gates_of(
    rules: Sequence[PolicyRule], subjects: Sequence[PolicySubject]
) -> Mapping[str, tuple[Gate, ...]]:
    """Return the gates of each task, by the key of its specification."""
    found: dict[str, list[Gate]] = {}
    for rule in rules:
        covered = _subjects_of(rule, subjects)
        times = Counter(subject.specification for subject, _ in covered)
        for subject, metric in covered:
            key = subject.specification
            gate = rule.gate(key, metric)
            if times[key] > 1:
                gate = replace(gate, id=fit_for_id(f"{gate.id}-{metric}"))
            found.setdefault(key, []).append(gate)
    return {key: tuple(gates) for key, gates in found.items()}


def _subjects_of(
    rule: PolicyRule, subjects: Sequence[PolicySubject]
) -> list[tuple[PolicySubject, str]]:
    in_scope = [one for one in subjects if rule.covers(one)]
    named_subjects = [
        (one, one.name) for one in in_scope if one.name and one.own == rule.metric
    ]
    named_subjects = named_subjects or [
        (one, one.name) for one in in_scope if one.name == rule.metric
    ]
    if named_subjects:
        return list(dict.fromkeys(named_subjects))
    unnamed_subjects = [one for one in in_scope if not one.name]
    unnamed_subjects.sort(key=lambda one: rule.metric.startswith(one.prefix))
    by_task = {one.specification: one for one in unnamed_subjects}
    if by_task:
        return [(one, one.final_name(rule.metric)) for one in by_task.values()]
    # Not the bare name: a value outside the scope may have it.
    lacking = f"{rule.metric} of {rule.scope_text}" if rule.scope else rule.metric
    return [(one, lacking) for one in (in_scope or subjects)[:1]]


def read_policy(entity: Entity) -> tuple[PolicyRule, ...]:
    """Return the rules of a policy."""
    problems: list[Problem] = []
    top = Section(entity.file, problems)
    header = read_header(top, "a policy", ("key", "display_name"))
    rules: dict[str, PolicyRule] = {}
    entries = top.entries("rules")
    if not entries:
        top.problem("rules", "a policy needs rules", "rules: [{key: …, definition: …}]")
    for entry in entries:
        one = _rule(entry, header.key)
        if one.id in rules:
            key = entry.values.get("key")
            entry.problem("key", f"duplicate rule {key!r}")
        rules[one.id] = one
    top.close("a policy")
    if problems:
        raise TaskFileError(problems)
    return tuple(rules.values())


def _rule(entry: Section, policy: str) -> PolicyRule:
    key = entry.text("key")
    if not key:
        entry.problem("key", "a rule needs a key", "key: accuracy")
    else:
        check_key(entry, "a rule")
    name = entry.text("display_name")
    entry.text("description")
    if not name:
        entry.problem("display_name", "display_name is missing", 'display_name: "…"')
    scope = _scope(entry)
    section = entry.section("definition")
    metric: str = ""
    bounds: tuple[Bound, ...] = ()
    if section is None:
        fix = "definition: {type: exists, metric: accuracy}"
        entry.problem("definition", "a rule needs a definition", fix)
    else:
        metric, bounds = _definition(section)
    entry.close("a rule")
    condition = " and ".join(map(str, bounds)) or "exists"
    return PolicyRule(
        id=fit_for_id(f"{policy}.{key}"),
        metric=metric,
        bounds=bounds,
        scope=scope,
        text=f"{name}: {metric} {condition}",
        place=entry.place(),
    )


def _definition(section: Section) -> tuple[str, tuple[Bound, ...]]:
    kind = section.one_of("type", "type of rule", ("threshold", "exists"), "")
    metric = section.name("metric")
    if metric is None:
        section.problem("metric", "a rule needs a metric", "metric: accuracy")
    bounds: tuple[Bound, ...] = ()
    if kind == "threshold":
        op = section.one_of("operator", "operator", tuple(_OPERATORS), "")
        value = _threshold(section)
        bounds = tuple(Bound(cast("Any", one), value) for one in _OPERATORS.get(op, ()))
    section.close("the definition of a rule" if not kind else f"a rule of type {kind}")
    return metric or "", bounds


def _threshold(section: Section) -> Decimal:
    """Return the threshold, read as in other gates; strings are not accepted."""
    given = section.raw("threshold")
    if isinstance(given, bool) or not isinstance(given, int | float):
        what = f"threshold must be a number, not {given!r:.80}"
        section.problem("threshold", what, "threshold: 0.5")
        return Decimal(0)
    try:
        return read_number(given, "threshold")
    except ConditionError as error:
        section.problem("threshold", error.what, error.fix)
        return Decimal(0)


def _scope(entry: Section) -> Mapping[str, frozenset[str]]:
    given = entry.raw("scope")
    everything: Literal["all_latest"] = "all_latest"
    if given is None or given == everything:
        return {}
    if not isinstance(given, dict):
        what = f"scope must be {everything!r} or lists of keys, not {given!r}"
        entry.problem("scope", what, f"scope: {everything}")
        return {}
    section = entry.section("scope")
    assert section is not None, "a mapping is a section"
    found = {
        key: frozenset(map(str, section.take(key, list, [])))
        for key in _SCOPE_KEYS
        if section.values.get(key) is not None
    }
    for key in _SCOPE_KEYS:
        section.raw(key)
    section.close("a scope")
    return found
