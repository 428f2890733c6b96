"""``when``: on which models and machines a gate is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pytest_evals.core.gate import Gate, Outcome, Verdict

__all__ = ["CONDITIONS", "left_out", "machine_of", "ungated"]

CONDITIONS = ("model", "dtype", "device", "gpu")
"""The keys of a condition."""


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
