"""LatticeFlow's additional Jinja filters.

Source: ``latticeflow-core`` 3.17.0. Filters return new values and modify nothing in
place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_evals.limits.patterns import compiled


def dumps(value: Any, **kwargs: Any) -> str:
    """Return JSON, also of objects with ``to_dict`` or ``model_dump``.

    Raises:
        TypeError: A value cannot be encoded as JSON.
    """
    return json.dumps(value, default=_as_plain, **kwargs)


def _as_plain(value: Any) -> Any:
    for name in ("to_dict", "model_dump"):
        if callable(dump := getattr(value, name, None)):
            return dump()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _fromjson(text: Any) -> Any:
    return json.loads(text if isinstance(text, str | bytes) else str(text))


def _json_escape(text: Any) -> str:
    return json.dumps(str(text))[1:-1]


def _zip(first: Iterable[Any], *others: Iterable[Any]) -> list[tuple[Any, ...]]:
    return list(zip(first, *others, strict=False))


def _merge(left: Any, right: Any) -> dict[Any, Any]:
    for side in (left, right):
        if not isinstance(side, Mapping):
            raise TypeError(f"merge takes two mappings, not {side!r:.60}")
    merged = dict(left)
    for key, value in right.items():
        mine = merged.get(key)
        both = isinstance(mine, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(mine, value) if both else value
    return merged


def _regex_replace(  # the signature that task files call
    value: Any,
    pattern: str,
    repl: str,
    multiline: bool = False,
    ignorecase: bool = False,
    count: int = 0,
) -> str:
    flags = (re.MULTILINE if multiline else 0) | (re.IGNORECASE if ignorecase else 0)
    return compiled(pattern, flags).sub(repl, str(value), count)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "fromjson": _fromjson,
    "json_escape": _json_escape,
    "merge": _merge,
    "regex_replace": _regex_replace,
    "zip": _zip,
}
