"""``when``: on which models and machines a gate is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pytest_evals.core.gate import Gate, Outcome, Verdict
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.rules.claim import ClaimError

__all__ = ["CONDITIONS", "When", "left_out", "machine_of", "read_when", "ungated"]

CONDITIONS = ("model", "dtype", "device", "gpu")
"""What a condition may be about."""
_EXAMPLE = "when: {dtype: bfloat16, device: cuda}"


class When(NamedTuple):
    """The conditions of a gate; the field is that of
    :class:`~pytest_evals.core.gate.Gate`."""

    when: tuple[tuple[str, tuple[str, ...]], ...] = ()


def read_when(entry: Mapping[object, object]) -> When:
    """The conditions of a mapping: for each key the patterns, one of which must match.

    Raises:
        ClaimError: A key is unknown, or a value is not text.
    """
    if "when" not in entry:
        return When()
    given = entry["when"]
    if not isinstance(given, Mapping) or not given:
        what = f"when must be a mapping of conditions, not {given!r}"
        raise ClaimError(what, _EXAMPLE)
    return When(tuple((_key(key), _patterns(key, one)) for key, one in given.items()))


def _key(key: object) -> str:
    if key not in CONDITIONS:
        hint = did_you_mean(str(key), CONDITIONS) or f"; known: {', '.join(CONDITIONS)}"
        raise ClaimError(f"when has no condition {key!r}{hint}", _EXAMPLE)
    return str(key)


def _patterns(key: object, given: object) -> tuple[str, ...]:
    every = given if isinstance(given, (list, tuple)) else [given]
    texts = [one.strip() for one in every if isinstance(one, str)]
    if not every or len(texts) < len(every) or not all(texts):
        what = f"when.{key} must be text or a list of texts, not {given!r}"
        raise ClaimError(what, _EXAMPLE if key != "gpu" else 'gpu: "*H100*"')
    return tuple(texts)


def machine_of(
    model: str, spec: str, info: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """The names that conditions are compared with, the one that is shown first; none
    for what is not known.

    Args:
        model: The model's name.
        spec: As given by ``--model``, empty if it was not.
        info: What the model reports of itself.
    """
    models = (model, spec, model.partition(",")[0], spec.partition(",")[0])
    device = str(info.get("device") or "")
    found = {
        "model": models,
        "dtype": (str(info.get("dtype") or "").removeprefix("torch."),),
        "device": (device, device.partition(":")[0]),
        "gpu": (str(info.get("device_name") or "") if "cuda" in device else "",),
    }
    return {key: tuple(filter(None, names)) for key, names in found.items()}


def left_out(gate: Gate, machine: Mapping[str, tuple[str, ...]]) -> Verdict | None:
    """The verdict of a gate whose conditions do not hold; ``None`` if they do.

    Args:
        gate: The gate.
        machine: As :func:`machine_of` returns it.
    """
    unmet = [
        _unmet(key, patterns, machine.get(key, ()))
        for key, patterns in gate.when
        if not any(_fits(name, patterns) for name in machine.get(key, ()))
    ]
    if not unmet:
        return None
    reason = f"when: {'; '.join(unmet)}"
    return Verdict(gate=gate, outcome=Outcome.SKIPPED, reason=reason, left_out=True)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.lower(), one.lower()) for one in patterns)


def _unmet(key: str, patterns: Iterable[str], names: tuple[str, ...]) -> str:
    wanted = " or ".join(patterns)
    return f"{key} is {names[0] if names else 'unknown'}, not {wanted}"


def ungated(verdicts: Iterable[Verdict]) -> list[str]:
    """One warning for each task or group whose gates were all left out."""
    judged: dict[str, bool] = {}
    for verdict in verdicts:
        name = verdict.gate.task
        judged[name] = judged.get(name, False) or not verdict.left_out
    return [
        f"{name}: no gate on this machine; the conditions (when) of all its gates do "
        "not hold"
        for name, is_judged in judged.items()
        if not is_judged
    ]
