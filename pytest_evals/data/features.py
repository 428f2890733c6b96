"""``dataset_kwargs.features``: the kinds of columns as a task file can write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def features_of(given: Mapping[str, Any]) -> Any:
    """The features of the ``datasets`` library.

    Args:
        given: Column → its kind: a word such as ``string``; ``{dtype: string}``, with
            ``sequence: true`` for lists (InfiniteBench of lm-eval writes this, and with
            datasets 5 lm-eval 0.4.13 fails on it); or as the library stores it, with
            ``_type``.

    Raises:
        ValueError: A kind is none of these.
    """
    import datasets

    stored = {name: _stored(name, kind) for name, kind in given.items()}
    return datasets.Features.from_dict(stored)


def _stored(name: str, kind: Any) -> Any:
    if isinstance(kind, str):
        return {"dtype": kind, "_type": "Value"}
    if isinstance(kind, Mapping) and "_type" in kind:
        return dict(kind)
    if not isinstance(kind, Mapping) or not isinstance(kind.get("dtype"), str):
        raise ValueError(f"features: {name!r} has no dtype")
    if unknown := sorted(kind.keys() - {"dtype", "sequence"}):
        raise ValueError(f"features: {name!r} has {unknown[0]!r}, which means nothing")
    value = {"dtype": kind["dtype"], "_type": "Value"}
    return {"feature": value, "_type": "Sequence"} if kind.get("sequence") else value
