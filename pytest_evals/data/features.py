"""Converts ``dataset_kwargs.features`` to features of the ``datasets`` library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def make_features(given: Mapping[str, Any]) -> Any:
    """Return the features of the ``datasets`` library.

    Args:
        given: Column → type: a name such as ``string``; ``{dtype: string}``, with
            ``sequence: true`` for lists (InfiniteBench in lm-eval uses this, and
            lm-eval 0.4.13 fails on it with datasets 5); or the serialized form of the
            library, with ``_type``.

    Raises:
        ValueError: A type is none of these.
    """
    import datasets

    serialized = {name: _serialized(name, kind) for name, kind in given.items()}
    return datasets.Features.from_dict(serialized)


def _serialized(name: str, kind: Any) -> Any:
    if isinstance(kind, str):
        return {"dtype": kind, "_type": "Value"}
    if isinstance(kind, Mapping) and "_type" in kind:
        return dict(kind)
    if not isinstance(kind, Mapping) or not isinstance(kind.get("dtype"), str):
        raise ValueError(f"features: {name!r} has no dtype")
    if unknown := sorted(kind.keys() - {"dtype", "sequence"}):
        raise ValueError(f"features: {name!r} has an unknown key {unknown[0]!r}")
    value = {"dtype": kind["dtype"], "_type": "Value"}
    return {"feature": value, "_type": "Sequence"} if kind.get("sequence") else value
