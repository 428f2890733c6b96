"""Names of models that are tested side by side.

A name is given, as in ``small=hf:gpt2``, or follows from the spec alone, so that adding
a model renames no other.

Standard library only: this is imported in every pytest run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pytest_evals.errors import OptionError

_GIVEN = re.compile(r"\s*([^:=,\"']*)=(?=[A-Za-z][\w-]*:)")
_UNFIT = re.compile(r"::|[\[\]/\\\s]|[^\x21-\x7e\xa1-\uffff]")
LONGEST = 64


class NamedModel(NamedTuple):
    """A tested model. ``name``: as in node ids; empty if it is the only one and has no
    given name."""

    name: str
    spec: str


def named(text: str) -> NamedModel:
    """Return the model of a value of ``--model``: ``[NAME=]SPEC``."""
    found = _GIVEN.match(text)
    if found is None:
        return NamedModel(derived_name(text), text)
    return NamedModel(found[1], text[found.end() :])


def derived_name(text: str) -> str:
    """Return the name of a spec: the last part of its target, and its arguments except
    paths, addresses and secrets. ``hf:org/gpt2,dtype=float16`` is
    ``gpt2,dtype=float16``."""
    from pytest_evals.masking.names import is_secret_name
    from pytest_evals.masking.values import masked_text
    from pytest_evals.models.registry import parse_spec

    try:
        spec = parse_spec(text)
    except OptionError:  # a spec of the hook that opens models
        target, arguments = masked_text(text).partition(":")[2] or text, {}
    else:
        target, arguments = masked_text(spec.target), dict(spec.arguments)
    last = re.split(r"[/\\]", target.rstrip("/\\"))[-1]
    parts = [_UNFIT.sub("_", last)]
    for key, value in arguments.items():
        if not (is_secret_name(key, loose=True) or _UNFIT.search(value)):
            parts.append(f"{key}={value}")
    return ",".join(parts)[:LONGEST]


def read_models(texts: Sequence[str]) -> tuple[NamedModel, ...]:
    """Return the models of the values of ``--model``; ``OptionError`` if two have one
    name, or a name cannot be in a node id."""
    if len(texts) == 1 and _GIVEN.match(texts[0]) is None:
        return (NamedModel("", texts[0]),)
    models = tuple(map(named, texts))
    seen: dict[str, NamedModel] = {}
    for one in models:
        if _UNFIT.search(one.name) or not one.name:
            raise OptionError(
                f"{one.name!r} is not a valid name of a model\n"
                f"  fix: use letters, digits and dashes: --model=small={one.spec}"
            )
        other = seen.setdefault(one.name, one)
        if other is not one:
            raise OptionError(_twice(one, other))
    return models


def _twice(one: NamedModel, other: NamedModel) -> str:
    from pytest_evals.masking.values import masked_text

    shown, first = masked_text(one.spec), masked_text(other.spec)
    if one.spec == other.spec:
        return (
            f"--model={shown} is given twice\n"
            "  fix: leave one out, or name both: --model=first=… --model=second=…"
        )
    return (
        f"two models are called {one.name!r}: {first} and {shown}\n"
        f"  fix: name them: --model=first={first} --model=second={shown}"
    )
