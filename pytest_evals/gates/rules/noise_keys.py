"""The keys of a gate that say which noise counts: ``over``, ``confidence``, ``noise``
and ``inconclusive``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast, get_args

from pytest_evals.core.gate import Policy, Scope
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.rules.claim import ClaimError, read_number

__all__ = ["NOISE_KEYS", "Noise", "read_noise"]

NOISE_KEYS = ("over", "confidence", "noise", "inconclusive")
USUAL = 0.95


class Noise(NamedTuple):
    """What a gate says of noise; the fields are those of
    :class:`~pytest_evals.core.gate.Gate`."""

    over: Scope = "run"
    confidence: float = USUAL
    flip_rate: float | None = None
    measured: bool = True
    inconclusive: Policy | Literal[""] = ""


def read_noise(entry: Mapping[object, object]) -> Noise:
    """What a mapping says of noise. ``confidence`` or ``noise`` alone mean another run
    on the same documents, ``over`` alone a confidence of 0.95. A baseline and a cluster
    mean other documents, unless it says otherwise.

    Raises:
        ClaimError: A value means nothing, or keys contradict each other.
    """
    asked = "confidence" in entry
    usual = "benchmark" if asked or "noise" in entry else "run"
    clustered = entry.get("cluster") not in (None, "none")
    if clustered or ("baseline" in entry and "noise" not in entry):
        usual = "population"
    over = _chosen(entry, "over", get_args(Scope), usual)
    policy = _chosen(entry, "inconclusive", get_args(Policy), "")
    if over == "run" and (asked or "noise" in entry or policy):
        named = next(key for key in NOISE_KEYS[1:] if key in entry)
        what = f"{named} has no meaning over: run, which counts no noise"
        raise ClaimError(what, "over: population")
    if over == "population" and "noise" in entry:
        what = "noise is that of another run, and over: population counts documents"
        raise ClaimError(what, "over: benchmark")
    if over != "population" and clustered:
        what = f"cluster has no meaning over: {over}, which asks no other documents"
        raise ClaimError(what, "over: population")
    return Noise(
        cast("Scope", over),
        _confidence(entry) if asked else USUAL,
        _flip_rate(entry),
        entry.get("noise", "auto") == "auto",
        cast("Policy | Literal['']", policy),
    )


def _chosen(
    entry: Mapping[object, object], key: str, names: tuple[str, ...], usual: str
) -> str:
    value = entry.get(key, usual)
    if value in names or (key not in entry and value == usual):
        return str(value)
    hint = did_you_mean(str(value), names) or f"; known: {', '.join(names)}"
    raise ClaimError(f"{key} cannot be {value!r}{hint}", f"{key}: {names[-1]}")


def _confidence(entry: Mapping[object, object]) -> float:
    value = float(read_number(entry["confidence"], "confidence"))
    if not 0.5 < value < 1:
        what = f"confidence lies between 0.5 and 1, and is not {entry['confidence']!r}"
        raise ClaimError(what, f"confidence: {USUAL}")
    return value


def _flip_rate(entry: Mapping[object, object]) -> float | None:
    """``auto`` is a rate that may have been measured, ``none`` one that is not
    known."""
    if entry.get("noise", "auto") in ("auto", "none", None):
        return None
    value = float(read_number(entry["noise"], "noise"))
    if not 0 <= value <= 1:
        what = f"noise is a share of documents from 0 to 1, not {entry['noise']!r}"
        raise ClaimError(what, "noise: 0.035")
    return value
