"""The keys of a gate that say what its sample is: ``cluster``, ``weights``, ``family``
and ``reducer``."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from pytest_evals.core.gate import Weights
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.evidence.reducers import REDUCERS, is_reducer
from pytest_evals.gates.rules.claim import ClaimError, read_number

__all__ = ["SAMPLE_KEYS", "Sampled", "read_sampled"]

SAMPLE_KEYS = ("cluster", "weights", "family", "reducer")
_WEIGHTS = ("size", "equal")


class Sampled(NamedTuple):
    """What a gate says of its sample; the fields are those of
    :class:`~pytest_evals.core.gate.Gate`."""

    cluster: str = ""
    weights: Weights = ""
    family: str = ""
    reducer: str = ""


def read_sampled(entry: Mapping[object, object]) -> Sampled:
    """What a mapping says of its sample.

    Raises:
        ClaimError: A value means nothing.
    """
    return Sampled(
        cluster=_name(entry, "cluster", "passage_id"),
        weights=_weights(entry),
        family=_family(entry),
        reducer=_reducer(entry),
    )


def _name(entry: Mapping[object, object], key: str, example: str) -> str:
    """A text, empty for none."""
    value = entry.get(key)
    if value is None or value == "none":
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise ClaimError(f"{key} is a name, not {value!r}", f"{key}: {example}")
    return str(value)


def _family(entry: Mapping[object, object]) -> str:
    if entry.get("family", "none") in ("none", None):
        return "none" if "family" in entry else ""
    return _name(entry, "family", "release")


def _reducer(entry: Mapping[object, object]) -> str:
    name = _name(entry, "reducer", "mean")
    if name and not is_reducer(name):
        hint = did_you_mean(name, REDUCERS) or f"; known: {', '.join(REDUCERS)}"
        fix = "reducer: pass@4" if name.startswith("pass") else "reducer: mean"
        raise ClaimError(f"no reducer called {name!r}{hint}", fix)
    return name


def _weights(entry: Mapping[object, object]) -> Weights:
    given = entry.get("weights")
    if given is None:
        return ""
    if given == "size" or given == "equal":
        return "size" if given == "size" else "equal"
    if isinstance(given, Mapping) and given:
        return tuple((str(task), _weight(task, w)) for task, w in given.items())
    hint = did_you_mean(str(given), _WEIGHTS)
    what = (
        f"weights cannot be {given!r}{hint or '; known: size, equal, {task: weight}'}"
    )
    raise ClaimError(what, "weights: size")


def _weight(task: object, given: object) -> Decimal:
    value = read_number(given, f"the weight of {str(task)!r}")
    if value <= 0:
        what = f"the weight of {str(task)!r} is above 0, not {given!r}"
        raise ClaimError(what, "weights: {algebra: 2, logic: 1}")
    return value
