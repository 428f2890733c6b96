"""Entries of ``gates:`` lists, and expressions of the command line, to gates.

Reading only: whether the metric is there, and whether the claim holds, is found out
when the results are. Keys that a gate does not know are problems, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pytest_evals.core.gate import Bound, Gate
from pytest_evals.errors import (
    OptionError,
    Place,
    Problem,
    TaskFileError,
    did_you_mean,
)
from pytest_evals.gates.rules.baseline_keys import BASELINE_KEYS, Against, read_against
from pytest_evals.gates.rules.claim import (
    ClaimError,
    LackError,
    Subject,
    read_claim,
    split_subject,
)
from pytest_evals.gates.rules.claim_keys import (
    read_bounds,
    read_must_pass,
    read_own_id,
    read_subject,
)
from pytest_evals.gates.rules.ids import (
    default_id,
    with_unique_ids,
)
from pytest_evals.gates.rules.noise_keys import NOISE_KEYS, Noise, read_noise
from pytest_evals.gates.rules.sample_keys import SAMPLE_KEYS, Sampled, read_sampled
from pytest_evals.gates.rules.when_keys import When, read_when

__all__ = [
    "DEFAULTS",
    "read_defaults",
    "read_expression",
    "read_gate",
    "with_unique_ids",
]

_OF_NUMBERS = ("metric", "min", "max", *NOISE_KEYS, *BASELINE_KEYS, *SAMPLE_KEYS)
"""Keys of gates that are about a number, and not about documents."""
_KEYS = (*_OF_NUMBERS, "must_pass", "id", "task", "group", "when")
DEFAULTS = ("confidence", "inconclusive", "family")
"""Keys that a file of gates may give for all of them."""
NO_DEFAULTS: Mapping[object, object] = {}
_FIXES = {
    "filter": "metric: exact_match,strict-match",
    "op": "min: 0.75",
    "value": "min: 0.75",
    "threshold": "min: 0.75",
}
_OPTION = Place(Path("--evals-gate"))


class _Parts(NamedTuple):
    """What a gate is made of; ``own_id`` is empty where none was given."""

    subject: Subject
    bounds: tuple[Bound, ...] = ()
    must_pass: tuple[str, ...] = ()
    own_id: str = ""
    noise: Noise = Noise()
    against: Against = Against()
    sampled: Sampled = Sampled()
    when: When = When()


def read_gate(
    entry: object,
    *,
    task: str,
    source: Place,
    defaults: Mapping[object, object] = NO_DEFAULTS,
) -> Gate:
    """One entry of a ``gates:`` list.

    Args:
        entry: Text such as ``acc >= 0.75``, or a mapping.
        task: Name of the task that it stands in; empty in a file beside the suite,
            where each gate says its own.
        source: File and line of the entry.
        defaults: Keys of :data:`DEFAULTS` for gates that count noise.

    Raises:
        TaskFileError: With all problems of the entry.
    """
    faults: list[ClaimError] = []
    if isinstance(entry, str):
        parts, faults = _attempt_text(entry, task)
        text = entry.strip()
    elif isinstance(entry, Mapping):
        parts, faults = _read_mapping(_with(defaults, entry), task)
        text = _as_written(entry)
    else:
        what = f"a gate is text such as 'acc >= 0.75' or a mapping, not {entry!r}"
        parts, faults, text = None, [ClaimError(what, "- acc >= 0.75")], ""
    if parts is not None and not parts.subject.task and not faults:
        what = f"gate {text!r} does not say which task it is about"
        fix = f"gsm8k/{text}" if isinstance(entry, str) else "task: gsm8k"
        faults.append(ClaimError(what, fix))
    if faults or parts is None:
        raise TaskFileError(Problem(f.what, source, f.fix) for f in faults)
    return _gate(parts, text, source)


def read_defaults(
    entry: Mapping[object, object], source: Callable[[object], Place]
) -> dict[object, object]:
    """What a file of gates says for all of them that count noise.

    Args:
        entry: Its ``defaults``.
        source: Where a key of it stands.

    Raises:
        TaskFileError: With all problems of it.
    """
    problems = []
    for key, value in entry.items():
        if key not in DEFAULTS:
            hint = did_you_mean(str(key), DEFAULTS) or f"; known: {', '.join(DEFAULTS)}"
            problems.append(Problem(f"defaults has no key {key!r}{hint}", source(key)))
            continue
        one: dict[object, object] = {"over": "population", key: value}
        try:
            read_noise(one)
            read_sampled(one)
        except ClaimError as fault:
            problems.append(Problem(fault.what, source(key), fault.fix))
    if problems:
        raise TaskFileError(problems)
    return {**entry}


def read_expression(text: str) -> Gate:
    """The gate of ``--evals-gate EXPR``: the short form.

    Without ``TASK/`` in front its task is empty: it applies to every task that has the
    metric, and whoever hands it to a task fills in the name.

    Raises:
        OptionError: The text is no gate.
    """
    parts, faults = _attempt_text(text, "")
    if parts is None:
        problems = [Problem(fault.what, _OPTION, fault.fix) for fault in faults]
        raise OptionError("\n".join(str(problem) for problem in problems))
    return _gate(parts, text.strip(), _OPTION)


def _gate(parts: _Parts, text: str, source: Place) -> Gate:
    subject = parts.subject
    gate = Gate(
        id=parts.own_id,
        task=subject.task,
        metric=subject.metric,
        filter=subject.filter,
        bounds=parts.bounds,
        must_pass=parts.must_pass,
        **parts.noise._asdict(),
        **parts.against._asdict(),
        **parts.sampled._asdict(),
        **parts.when._asdict(),
        text=text,
        source=source,
    )
    return gate if gate.id else replace(gate, id=default_id(gate))


def _attempt_text(text: str, task: str) -> tuple[_Parts | None, list[ClaimError]]:
    try:
        claim = read_claim(text)
        return _Parts(split_subject(claim.subject, task), (claim.bound,)), []
    except ClaimError as fault:
        return None, [fault]


def _with(
    defaults: Mapping[object, object], entry: Mapping[object, object]
) -> Mapping[object, object]:
    """The entry with what it does not say itself, where that has a meaning."""
    try:
        counts_noise = read_noise(entry).over != "run"
    except ClaimError:  # told when the entry is read
        return entry
    return {**defaults, **entry} if counts_noise else entry


def _read_mapping(
    entry: Mapping[object, object], task: str
) -> tuple[_Parts | None, list[ClaimError]]:
    faults = _key_faults(entry)
    readers: tuple[Callable[[], object], ...] = (
        lambda: read_subject(entry, task),
        lambda: read_bounds(entry),
        lambda: read_must_pass(entry),
        lambda: read_own_id(entry),
        lambda: read_noise(entry),
        lambda: read_against(entry),
        lambda: read_sampled(entry),
        lambda: read_when(entry),
    )
    for read in readers:
        try:
            read()
        except ClaimError as fault:
            if not (isinstance(fault, LackError) and _misspelt(entry, fault.keys)):
                faults.append(fault)
    if faults:
        return None, faults
    parts = _Parts(
        subject=read_subject(entry, task),
        bounds=read_bounds(entry),
        must_pass=read_must_pass(entry),
        own_id=read_own_id(entry),
        noise=read_noise(entry),
        against=read_against(entry),
        sampled=read_sampled(entry),
        when=read_when(entry),
    )
    return parts, []


def _misspelt(entry: Mapping[object, object], keys: Sequence[str]) -> bool:
    """Whether an unknown key is nearest to one of some keys."""
    meant = {did_you_mean(key, [key]) for key in keys}
    return any(did_you_mean(str(k), _KEYS) in meant for k in entry if k not in _KEYS)


def _key_faults(entry: Mapping[object, object]) -> list[ClaimError]:
    """What is wrong with the keys as such."""
    names = [key if isinstance(key, str) else repr(key) for key in entry]
    faults = []
    for name in names:
        if name in _KEYS:
            continue
        hint = did_you_mean(name, _KEYS) or f"; known: {', '.join(_KEYS)}"
        faults.append(
            ClaimError(f"a gate has no key {name!r}{hint}", _FIXES.get(name, ""))
        )
    if "must_pass" in entry and {*_OF_NUMBERS} & {*names}:
        what = "must_pass is a gate of its own; bounds and noise belong to another"
        faults.append(ClaimError(what, "write two entries"))
    return faults


def _as_written(entry: Mapping[object, object]) -> str:
    """The mapping on one line, as in YAML."""
    return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in entry.items()) + "}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return _as_written(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_shown(one) for one in value) + "]"
    return value if isinstance(value, str) and value.isprintable() else repr(value)
