"""Model kinds: validation, fingerprints and opening of models.

A kind is imported when a spec first names it, so that this module loads the standard
library only. Functions of a spec raise ``OptionError`` for a mistake in it; those that
need a library or a model also ``MissingExtraError`` (with the extra to install) and
``ModelError``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.model import Model, RequestTokenizer
from pytest_evals.core.registry import MODEL_KINDS, Registry
from pytest_evals.core.request import Request
from pytest_evals.core.response_contract import as_model
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.errors import OptionError
from pytest_evals.masking.values import identity, masked_text
from pytest_evals.models.spec import (
    ModelSpec,
    kind_name,
    read_command_spec,
    read_spec,
)

HashFile = Callable[[Path], str]


class TaskRequirements(NamedTuple):
    """Requirements of a task on its model. ``output_type``: as lm-eval calls it;
    empty if the task does not set it."""

    output_type: str
    chat: bool
    images: bool = False
    tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelKind:
    """A kind of model. All functions take a spec of this kind."""

    name: str  # The name in specs, before the colon
    example: str  # A spec, for error messages
    open: Callable[[ModelSpec], Model]
    check: Callable[[ModelSpec], object] = lambda spec: None
    """Raises ``OptionError`` for a mistake that is known without loading anything."""
    check_ready: Callable[[ModelSpec], None] = lambda spec: None
    """Raises what ``open`` would raise if this machine lacks a library, a key or the
    model. Loads nothing and sends nothing to a model."""
    import_libraries: Callable[[ModelSpec], None] = lambda spec: None
    """Imports what ``open`` needs."""
    is_local: bool = False
    """Whether it runs in the process that opens it, so that it can be replicated."""
    one_per_session: bool = False
    """Whether one process of a session can open it: it occupies all devices."""
    is_deterministic: bool = False  # As for the open model
    answering: Callable[[ModelSpec], ModelSpec] = lambda spec: spec
    """The spec of the model that gives the answers, for kinds that replicate others."""
    why_unfit: Callable[[ModelSpec, TaskRequirements], str] = lambda spec, needs: ""
    """Why it cannot run a task; empty if it can, or if only the open model decides."""
    why_unable: Callable[[ModelSpec], str] | None = None
    """Sends the model a few requests to find out why it cannot compute
    log-probabilities; empty if it can. ``None`` for kinds that always can, or never."""
    fingerprint: Callable[[ModelSpec, HashFile], Mapping[str, Any] | None] = (
        lambda spec, hash_file: None
    )
    """JSON values that are equal for models with equal answers, without opening the
    model; the second argument hashes a file. ``None`` if responses are not worth
    storing, or if the files cannot be determined."""
    check_address: Callable[[str], object] = str
    """Raises ``OptionError`` for a text that is not the address of a cluster."""
    address: Callable[[ModelSpec], str] = lambda spec: ""
    """The server's address without secrets, if the spec does not contain it."""
    open_tokenizer: Callable[[ModelSpec], RequestTokenizer | None] = lambda spec: None
    """Loads the tokenizer without the model; ``None`` if none exists."""
    spend_plan: Callable[[ModelSpec, Sequence[Request]], SpendPlan | None] | None = None
    """What requests would cost; ``None`` for models that are not served."""
    arguments: frozenset[str] = frozenset()
    """Names of its arguments, for kinds whose models another one starts."""
    ends_command: Callable[[], Collection[str]] | None = None
    """For kinds whose target is a command, in which commas are not special: the names
    of arguments, of which the first one ends it."""
    target_key: str = "model"  # lm-eval's name for the target in ``model_args``


KINDS: Registry[ModelKind] = Registry(
    "kind of model",
    {
        "encoder": "pytest_evals.models.encoder.kind:ENCODER",
        "hf": "pytest_evals.models.hf.kind:HF",
        "openai": "pytest_evals.models.openai.kind:OPENAI",
        "python": "pytest_evals.models.python.kind:PYTHON",
        "scripted": "pytest_evals.models.scripted:SCRIPTED",
        "serve": "pytest_evals.models.serve.kind:SERVE",
        "vllm": "pytest_evals.models.vllm.kind:VLLM",
        **MODEL_KINDS,
    },
)


def parse_spec(text: str) -> ModelSpec:
    """The kind, target and arguments of a spec, ``KIND:TARGET[,NAME=VALUE…]``. The
    target of ``serve:`` is a command, which ends at the first argument. Raises
    ``OptionError`` if the text is not a spec, or its kind is unknown."""
    kind = kind_name(text)
    ends = KINDS[kind].ends_command if kind in KINDS else None
    if ends is not None:
        return read_command_spec(text, ends())
    return read_spec(text, [*KINDS], lambda kind: KINDS[kind].example)


def with_address(text: str) -> str:
    """A spec without secrets and, if it does not contain it, its server's address."""
    shown = masked_text(text)
    try:
        spec = parse_spec(text)
        address = KINDS[spec.kind].address(spec)
    except OptionError:  # a spec of the hook that opens models
        return shown
    return f"{shown} at {address}" if address else shown


def check_spec(spec: ModelSpec) -> None:
    """Check everything that can be checked without loading the model."""
    KINDS[spec.kind].check(spec)


def check_ready(spec: ModelSpec) -> None:
    """Check that a model can be opened on this machine: key, libraries and model exist.
    Loads nothing and sends no request to a model."""
    check_spec(spec)
    KINDS[spec.kind].check_ready(spec)


def import_libraries(spec: ModelSpec) -> None:
    """Import the libraries that a model needs. ``open_model`` does it too."""
    check_spec(spec)
    KINDS[spec.kind].import_libraries(spec)


def open_model(spec: ModelSpec) -> Model:
    """Load the model."""
    check_spec(spec)
    return KINDS[spec.kind].open(spec)


def answering(spec: ModelSpec) -> ModelSpec:
    """The spec of the model that computes the responses; of replicas, that of one."""
    return KINDS[spec.kind].answering(spec)


def is_deterministic(spec: ModelSpec) -> bool:
    """Whether the model's responses to equal greedy requests are equal."""
    return KINDS[answering(spec).kind].is_deterministic


def why_unfit(spec: ModelSpec, needs: TaskRequirements) -> str:
    """Why a model cannot run a task; decided by the spec alone; empty if it can
    or if only the open model decides."""
    spec = answering(spec)
    return KINDS[spec.kind].why_unfit(spec, needs)


def open_tokenizer(spec: ModelSpec) -> RequestTokenizer | None:
    """The model's tokenizer without its weights; ``None`` for kinds without one."""
    check_spec(spec)
    spec = answering(spec)
    return KINDS[spec.kind].open_tokenizer(spec)


def spend_plan(spec: ModelSpec, requests: Sequence[Request]) -> SpendPlan | None:
    """Requests, tokens and cost of requests that would be sent; ``None`` for a model
    that is not served."""
    check_spec(spec)
    plan = KINDS[spec.kind].spend_plan
    return None if plan is None else plan(spec, requests)


def fingerprint_of(spec: ModelSpec, hash_file: HashFile) -> Mapping[str, Any] | None:
    """JSON values, without secrets, that are equal for models with equal answers; the
    model is not opened."""
    check_spec(spec)
    spec = answering(spec)
    found = KINDS[spec.kind].fingerprint(spec, hash_file)
    return identity(found, loose=True)


class ModelHook:
    """The user hook that opens models. Its result for a spec applies to that spec only;
    it is called once per spec, when the result is needed."""

    def __init__(
        self, exists: Callable[[], bool], call: Callable[[str], object | None]
    ) -> None:
        """Store the hook; it is not called here. ``exists``: whether anybody implements
        it. ``call``: spec → the hook's model, ``None`` to leave it to the spec's kind.
        """
        self._exists, self._call = exists, call
        self._takes: dict[str, bool] = {}
        self._waiting: dict[str, Model] = {}

    @property
    def has_opened(self) -> bool:
        """Whether the hook has opened a model or raised an exception."""
        return any(self._takes.values())

    def open(self, text: str) -> Model | None:
        """The hook's model for a spec; ``None`` if the spec's kind opens it."""
        if text in self._waiting:
            return self._waiting.pop(text)
        if not self._exists() or not self._takes.get(text, True):
            return None
        self._takes[text] = True  # an exception is the hook's too
        given = self._call(text)
        self._takes[text] = given is not None
        if given is None:
            return None
        return as_model(given, "the hook pytest_evals_open_model")

    def takes(self, text: str) -> bool:
        """Whether the hook, and not the spec's kind, opens the model. Called for
        built-in kinds; the opened model is kept for ``open``."""
        if not self._exists():
            return False
        if kind_name(text) not in KINDS:
            return True
        if text not in self._takes:
            try:
                model = self.open(text)
            except Exception:  # noqa: BLE001 - raised again where the model is needed
                return True
            if model is not None:
                self._waiting[text] = model
        return self._takes[text]

    def close(self) -> None:
        """Close opened models that were not used."""
        while self._waiting:
            self._waiting.popitem()[1].close()
