"""Policies: rules that must hold of numbers, as gates of the tasks that have them.

A rule is about all numbers of a name. It becomes one gate on each of them that is known
beforehand; if none is, one on each task in its scope whose numbers have names that are
known only later, or else on the first task, where it is found lacking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, cast

from pytest_evals.core.gate import Bound, Gate
from pytest_evals.dialects.latticeflow.entities import Entity
from pytest_evals.dialects.latticeflow.header import check_key, read_header
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
    """A number of a task; ``name`` is its final one, ``own`` as its metric calls it,
    both empty for numbers whose names are known only later; ``prefix`` is what stands
    in front of those."""

    evaluation: str
    specification: str
    scorer: str = ""
    metric: str = ""
    name: str = ""
    own: str = ""
    prefix: str = ""

    def later(self, metric: str) -> str:
        """The final name of one whose name is known only later."""
        return metric if metric.startswith(self.prefix) else self.prefix + metric


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """One rule.

    Args:
        id: Last part of the node ids of its gates.
        metric: What the numbers are called.
        bounds: What they keep; nothing, where a number only has to be there.
        scope: Key of :data:`_SCOPE_KEYS` → what it may be; empty for everything.
        text: As shown.
        place: Where it stands.
    """

    id: str
    metric: str
    bounds: tuple[Bound, ...]
    scope: Mapping[str, frozenset[str]]
    text: str
    place: Place

    @property
    def scope_text(self) -> str:
        """Its scope in words: ``scorer_keys exact``."""
        parts = (f"{key} {', '.join(sorted(one))}" for key, one in self.scope.items())
        return " and ".join(parts)

    def covers(self, subject: PolicySubject) -> bool:
        """Whether a number is in its scope."""
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
        """The rule as a gate of a task."""
        return Gate(
            id=self.id,
            task=task,
            metric=metric,
            bounds=self.bounds,
            text=self.text,
            source=self.place,
            foreign=True,
        )


def gates_of(
    rules: Sequence[PolicyRule], subjects: Sequence[PolicySubject]
) -> Mapping[str, tuple[Gate, ...]]:
    """The gates of each task, by the key of its specification."""
    found: dict[str, list[Gate]] = {}
    for rule in rules:
        about = _about(rule, subjects)
        times = Counter(subject.specification for subject, _ in about)
        for subject, metric in about:
            key = subject.specification
            gate = rule.gate(key, metric)
            if times[key] > 1:
                gate = replace(gate, id=fit_for_id(f"{gate.id}-{metric}"))
            found.setdefault(key, []).append(gate)
    return {key: tuple(gates) for key, gates in found.items()}


def _about(
    rule: PolicyRule, subjects: Sequence[PolicySubject]
) -> list[tuple[PolicySubject, str]]:
    inside = [one for one in subjects if rule.covers(one)]
    named = [(one, one.name) for one in inside if one.name and one.own == rule.metric]
    named = named or [(one, one.name) for one in inside if one.name == rule.metric]
    if named:
        return list(dict.fromkeys(named))
    unnamed = [one for one in inside if not one.name]
    unnamed.sort(key=lambda one: rule.metric.startswith(one.prefix))
    later = {one.specification: one for one in unnamed}
    if later:
        return [(one, one.later(rule.metric)) for one in later.values()]
    # Not the bare name, which a number out of its scope may have.
    lacking = f"{rule.metric} of {rule.scope_text}" if rule.scope else rule.metric
    return [(one, lacking) for one in (inside or subjects)[:1]]


def read_policy(entity: Entity) -> tuple[PolicyRule, ...]:
    """The rules of a policy.

    Raises:
        TaskFileError: With all problems of it.
    """
    problems: list[Problem] = []
    top = Section(entity.file, problems)
    header = read_header(top, "a policy", ("key", "display_name"))
    rules: dict[str, PolicyRule] = {}
    entries = top.entries("rules")
    if not entries:
        top.problem("rules", "a policy has rules", "rules: [{key: …, definition: …}]")
    for entry in entries:
        one = _rule(entry, header.key)
        if one.id in rules:
            key = entry.values.get("key")
            entry.problem("key", f"there is another rule called {key!r}")
        rules[one.id] = one
    top.close("a policy")
    if problems:
        raise TaskFileError(problems)
    return tuple(rules.values())


def _rule(entry: Section, policy: str) -> PolicyRule:
    key = entry.text("key")
    if not key:
        entry.problem("key", "a rule has a key", "key: accuracy")
    else:
        check_key(entry, "key", "a rule")
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
        entry.problem("definition", "a rule has a definition", fix)
    else:
        metric, bounds = _definition(section)
    entry.close("a rule")
    told = " and ".join(map(str, bounds)) or "exists"
    return PolicyRule(
        id=fit_for_id(f"{policy}.{key}"),
        metric=metric,
        bounds=bounds,
        scope=scope,
        text=f"{name}: {metric} {told}",
        place=entry.place(),
    )


def _definition(section: Section) -> tuple[str, tuple[Bound, ...]]:
    kind = section.one_of("type", "type of rule", ("threshold", "exists"), "")
    metric = section.name("metric")
    if metric is None:
        section.problem("metric", "a rule names a metric", "metric: accuracy")
    bounds: tuple[Bound, ...] = ()
    if kind == "threshold":
        op = section.one_of("operator", "operator", tuple(_OPERATORS), "")
        value = _threshold(section)
        bounds = tuple(Bound(cast("Any", one), value) for one in _OPERATORS.get(op, ()))
    section.close("the definition of a rule" if not kind else f"a rule of type {kind}")
    return metric or "", bounds


def _threshold(section: Section) -> Decimal:
    """Read as in gates of other files, except that text is not a number."""
    given = section.raw("threshold")
    if isinstance(given, bool) or not isinstance(given, int | float):
        what = f"threshold is a number, not {given!r:.80}"
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
        what = f"scope is {everything!r} or lists of keys, not {given!r}"
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
