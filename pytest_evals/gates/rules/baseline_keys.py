"""The keys of a gate that hold a metric against a stored run: ``baseline`` with one of
``max_drop``, ``max_rise`` and ``recovery``; and ``each`` for the tasks of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast

from pytest_evals.core.gate import Margin
from pytest_evals.errors import did_you_mean
from pytest_evals.gates.rules.claim import ClaimError, read_number

__all__ = ["BASELINE_KEYS", "Against", "read_against"]

MARGIN_KEYS = ("max_drop", "max_rise", "recovery")
BASELINE_KEYS = ("baseline", *MARGIN_KEYS, "each")
_EACH_KEYS = ("max_drop", "max_rise", "only")
_EXAMPLE = "{metric: acc, baseline: main, max_drop: 0.02}"


class Against(NamedTuple):
    """What a gate says of a baseline; the fields are those of
    :class:`~pytest_evals.core.gate.Gate`."""

    baseline: str = ""
    margin: Margin | None = None
    each: Margin | None = None


def read_against(entry: Mapping[object, object]) -> Against:
    """What a mapping says of a baseline; nothing if it names none.

    Raises:
        ClaimError: A value means nothing, or a key is missing or too many.
    """
    margins = [key for key in MARGIN_KEYS if key in entry]
    if "baseline" not in entry:
        if margins or "each" in entry:
            what = f"{(*margins, 'each')[0]} is held against a baseline: name one"
            raise ClaimError(what, "baseline: main")
        return Against()
    name = entry["baseline"]
    if isinstance(name, bool) or not isinstance(name, (str, int)) or not str(name):
        what = f"baseline is the name of a stored run, not {name!r}"
        raise ClaimError(what, "baseline: main")
    bounds = [key for key in ("min", "max") if key in entry]
    if bounds:
        what = f"a baseline gate bounds a change, and {bounds[0]} the number itself"
        raise ClaimError(what, f"write two entries, one of them {_EXAMPLE}")
    if len(margins) != 1:
        said = " and ".join(margins) if margins else "none of them"
        what = f"a baseline gate has one of {', '.join(MARGIN_KEYS)}; this has {said}"
        raise ClaimError(what, _EXAMPLE)
    return Against(str(name), _margin(entry, margins[0]), _each(entry))


def _margin(entry: Mapping[object, object], key: str) -> Margin:
    raw = entry[key]
    value = read_number(raw, key)
    known = cast("Literal['max_drop', 'max_rise', 'recovery']", key)
    percent = isinstance(raw, str) and raw.strip().endswith("%")
    if key == "recovery":
        if not 0 < value <= 1:
            what = f"recovery is a share of the baseline's value up to 1, not {raw!r}"
            raise ClaimError(what, "recovery: 0.95")
        return Margin(known, value, relative=True)
    if value < 0:
        what = f"{key} is 0 or more, not {raw!r}: it says how much worse is allowed"
        raise ClaimError(what, f"{key}: {-value}")
    return Margin(known, value, relative=percent)


def _each(entry: Mapping[object, object]) -> Margin | None:
    if "each" not in entry:
        return None
    given = entry["each"]
    example = "each: {max_drop: 0.05, only: failed}"
    if not isinstance(given, Mapping):
        raise ClaimError(f"each is a mapping, not {given!r}", example)
    for key in given:
        if key not in _EACH_KEYS:
            hint = did_you_mean(str(key), _EACH_KEYS)
            known = hint or f"; known: {', '.join(_EACH_KEYS)}"
            raise ClaimError(f"each has no key {key!r}{known}", example)
    margins = [key for key in ("max_drop", "max_rise") if key in given]
    if len(margins) != 1:
        raise ClaimError("each has one of max_drop and max_rise", example)
    if given.get("only", "failed") != "failed":
        what = f"each cannot be only: {given['only']!r}: a task by itself has too few "
        what += "documents to be proven good, so it gives alarms"
        raise ClaimError(what, example)
    return _margin(given, margins[0])
