"""What ``--model`` says: a kind of model, which one, and its arguments.

``hf:./my-model,dtype=bfloat16,device=cuda:1`` is the kind ``hf``, the target
``./my-model`` and two arguments. This module reads and checks that text and imports a
model's module when it is opened; it imports nothing but the standard library itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.cut import Cutter
from pytest_evals.core.registry import Registry
from pytest_evals.core.request import Model
from pytest_evals.errors import OptionError, did_you_mean
from pytest_evals.masking.known import MASK
from pytest_evals.masking.names import is_secret_name
from pytest_evals.masking.values import identity, masked_text

__all__ = [
    "CHECKS",
    "CUTTERS",
    "FINGERPRINTS",
    "INNER",
    "KINDS",
    "LIMITS",
    "ModelSpec",
    "Needs",
    "answering",
    "check_ready",
    "check_spec",
    "fingerprint_of",
    "open_cutter",
    "open_model",
    "parse_spec",
    "why_unable",
    "why_unfit",
]

_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model that can be opened.

    Args:
        kind: Which kind of model, a name in ``KINDS``.
        target: Which one: a folder, a name on the Hub, a file.
        arguments: What else was given, as typed; in the order it was typed.
    """

    kind: str
    target: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The spec on one line, without secrets; what results files call the model."""
        parts = [f"{self.kind}:{_quoted(self.target)}"]
        for name, value in self.arguments.items():
            secret = is_secret_name(name, loose=True)
            parts.append(f"{name}={MASK if secret else _quoted(value)}")
        return masked_text(",".join(parts))

    def __repr__(self) -> str:
        """As ``str``: no secret may reach a log by way of a traceback."""
        return f"<ModelSpec {self}>"


KINDS: Registry[Callable[[ModelSpec], Model]] = Registry(
    "kind of model",
    {
        "hf": "pytest_evals.models.hf.kind:open_hf",
        "openai": "pytest_evals.models.openai.kind:open_openai",
        "ray": "pytest_evals.models.ray.kind:open_ray",
        "scripted": "pytest_evals.models.scripted:open_scripted",
    },
)
"""Kind → what opens a model of that kind."""

CHECKS: Registry[Callable[[ModelSpec], None]] = Registry(
    "kind of model",
    {
        "hf": "pytest_evals.models.hf.settings:check_hf",
        "openai": "pytest_evals.models.openai.settings:check_openai",
        "ray": "pytest_evals.models.ray.settings:check_ray",
        "scripted": "pytest_evals.models.scripted:check_scripted",
    },
)
"""Kind → what finds mistakes in a spec without loading anything heavy."""

READY: Registry[Callable[[ModelSpec], None]] = Registry(
    "kind of model that needs something of this machine",
    {
        "hf": "pytest_evals.models.hf.kind:check_ready",
        "openai": "pytest_evals.models.openai.kind:check_ready",
        "ray": "pytest_evals.models.ray.kind:check_ready",
    },
)
"""Kind → what finds out why a model cannot be opened here, without opening it."""

INNER: Registry[Callable[[ModelSpec], ModelSpec]] = Registry(
    "kind of model that replicates another",
    {"ray": "pytest_evals.models.ray.settings:inner_spec"},
)
"""Kind → the spec of the model that answers, where the kind only says where it is."""

CUTTERS: Registry[Callable[[ModelSpec], Cutter]] = Registry(
    "kind of model with a tokenizer",
    {"hf": "pytest_evals.models.hf.kind:open_hf_cutter"},
)
"""Kind → what loads its tokenizer alone."""


class Needs(NamedTuple):
    """What a task needs of a model.

    Args:
        output_type: As lm-eval calls it; empty if the task does not say.
        chat: Whether prompts are chats.
        images: Whether requests show images.
    """

    output_type: str
    chat: bool
    images: bool = False


Limit = Callable[[ModelSpec, Needs], str]

LIMITS: Registry[Limit] = Registry(
    "kind of model that cannot run every task",
    {
        "hf": "pytest_evals.models.hf.settings:why_unfit",
        "openai": "pytest_evals.models.openai.settings:why_unfit",
    },
)
"""Kind → why a model cannot answer a task, empty if it can or if only the model itself
can say."""

TRIALS: Registry[Callable[[ModelSpec], str]] = Registry(
    "kind of model that is tried",
    {"openai": "pytest_evals.models.openai.kind:why_unable"},
)
"""Kind → why a model cannot score texts, as only asking it tells."""

Fingerprint = Callable[[ModelSpec, Callable[[Path], str]], Mapping[str, Any] | None]

FINGERPRINTS: Registry[Fingerprint] = Registry(
    "kind of model with a fingerprint",
    {
        "hf": "pytest_evals.models.hf.fingerprint:hf_fingerprint",
        "openai": "pytest_evals.models.openai.fingerprint:openai_fingerprint",
    },
)
"""Kind → what identifies a model of that kind without opening it. Answers of a kind
that is not here are not worth storing."""


def parse_spec(text: str) -> ModelSpec:
    """The kind, target and arguments that a text names.

    Arguments are ``name=value`` after commas. A value may contain ``=``; commas inside
    quotes or brackets belong to it, and quotes around a whole value are taken off.

    Raises:
        OptionError: The text is not a spec, or its kind is unknown.
    """
    masked_text(text)  # from here on, no error repeats a secret
    head, *rest = _parts(text.strip())
    kind, colon, target = head.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][\w-]*", kind):
        raise OptionError(_no_kind(head))
    if kind not in KINDS:
        known = ", ".join(KINDS)
        hint = did_you_mean(kind, list(KINDS)) or f"; write 'hf:{head}' for a folder"
        raise OptionError(f"no kind of model called {kind!r}{hint} (known: {known})")
    target = _unquoted(target)
    if kind == "hf" and target.startswith("pretrained="):
        right = target.removeprefix("pretrained=")
        raise OptionError(f"'hf:{target}' names its model twice; write 'hf:{right}'")
    if not target:
        raise OptionError(f"'{kind}:' names no model; write {_example(kind)}")
    return ModelSpec(kind=kind, target=target, arguments=_arguments(rest))


def check_spec(spec: ModelSpec) -> None:
    """Find every mistake that can be known without loading the model.

    Raises:
        OptionError: An argument is unknown or has a bad value, or a local path does not
            hold a model.
    """
    if spec.kind in CHECKS:
        CHECKS[spec.kind](spec)


def check_ready(spec: ModelSpec) -> None:
    """Find out why a model cannot be opened on this machine: a key, a library or the
    model itself is missing. Nothing is loaded, and no model is sent anything.

    Raises:
        OptionError: As ``check_spec``; or there is no key.
        MissingExtraError: A library that this kind needs is not installed.
        ModelError: It is not there.
    """
    check_spec(spec)
    if spec.kind in READY:
        READY[spec.kind](spec)


def open_model(spec: ModelSpec) -> Model:
    """Load the model, ready to answer.

    Raises:
        OptionError: As ``check_spec``.
        MissingExtraError: A library that this kind needs is not installed.
        ModelError: The model cannot be loaded.
    """
    check_spec(spec)
    return KINDS[spec.kind](spec)


def why_unfit(spec: ModelSpec, needs: Needs) -> str:
    """Why a model cannot answer a task, as far as it is known before it is opened;
    empty if nothing is known against it.

    Raises:
        OptionError: There is a mistake in the spec.
    """
    spec = answering(spec)
    return LIMITS[spec.kind](spec, needs) if spec.kind in LIMITS else ""


def why_unable(spec: ModelSpec) -> str:
    """Why a model cannot score texts, of kinds that are asked about it; empty if
    nothing is known against it."""
    return TRIALS[spec.kind](spec) if spec.kind in TRIALS else ""


def answering(spec: ModelSpec) -> ModelSpec:
    """The spec of the model that gives the answers: of replicas, that of one.

    Raises:
        OptionError: There is a mistake in it.
    """
    return INNER[spec.kind](spec) if spec.kind in INNER else spec


def open_cutter(spec: ModelSpec) -> Cutter | None:
    """The model's tokenizer without the model; ``None`` for kinds that have none.

    Raises:
        OptionError: As ``check_spec``.
        MissingExtraError: A library that this kind needs is not installed.
        ModelError: The tokenizer cannot be loaded.
    """
    check_spec(spec)
    spec = answering(spec)
    return CUTTERS[spec.kind](spec) if spec.kind in CUTTERS else None


def fingerprint_of(
    spec: ModelSpec, hash_file: Callable[[Path], str]
) -> Mapping[str, Any] | None:
    """What is equal for models with equal answers; the model is not opened.

    Args:
        spec: The model.
        hash_file: Path → hash of the file's content.

    Returns:
        JSON values without secrets; ``None`` for a kind that is not worth storing, and
        where nobody can say which files are meant.

    Raises:
        OptionError: As ``check_spec``.
    """
    check_spec(spec)
    spec = answering(spec)
    if spec.kind not in FINGERPRINTS:
        return None
    return identity(FINGERPRINTS[spec.kind](spec, hash_file), loose=True)


def _arguments(parts: list[str]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or not name:
            raise OptionError(
                f"{part!r} is not name=value in the model's arguments; "
                "put quotes around a value with a comma"
            )
        if name in arguments:
            raise OptionError(f"the model's argument {name!r} is given twice")
        arguments[name] = _unquoted(value.strip())
    return arguments


def _no_kind(head: str) -> str:
    if head in KINDS:
        return f"{head!r} is a kind of model without a model; write {_example(head)}"
    target = head.removeprefix("pretrained=")
    if not target:
        return f"no model is named; write {_example('hf')}"
    return (
        f"{head!r} does not say what kind of model it is; did you mean 'hf:{target}'?"
    )


def _example(kind: str) -> str:
    examples = {"scripted": "scripted:first", "openai": "openai:MODEL,base_url=…"}
    return repr(examples.get(kind, f"{kind}:PATH_OR_NAME"))


def _parts(text: str) -> list[str]:
    """The text cut at the commas that are outside of quotes and brackets. A quote opens
    only where a target or a value begins, so that ``bob's`` is a plain word."""
    parts, start = [], 0
    for comma in _commas(text):
        parts.append(text[start:comma])
        start = comma + 1
    return [*parts, text[start:]]


def _commas(text: str) -> Iterator[int]:
    expected: list[str] = []
    quote, begins = "", True
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"" and begins:
            quote = sign
        elif sign in _CLOSING:
            expected.append(_CLOSING[sign])
        elif expected and sign == expected[-1]:
            expected.pop()
        elif sign == "," and not expected:
            yield place
        begins = sign in "=,:" or (begins and sign == " ")
    if quote or expected:
        missing = quote or expected[-1]
        raise OptionError(f"the model's spec lacks a closing {missing}")


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _quoted(value: str) -> str:
    plain = _unquoted(value) == value and "," not in value
    return value if plain or value[:1] in _CLOSING else f'"{value}"'
