"""Model kind ``openai``: served models. Importing it does not import the openai
library. Keys are read from the environment and only passed to the client."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pytest_evals.core.request import Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.data.network_variables import network_fault
from pytest_evals.errors import EvalsError, MissingExtraError, OptionError
from pytest_evals.masking.registry import learn_secret
from pytest_evals.models.checkpoint import provenance
from pytest_evals.models.http.usage import SpendLimits, spend_plan_of
from pytest_evals.models.openai.settings import (
    OpenAISettings,
    check_openai,
    read_settings,
    why_unfit,
)
from pytest_evals.models.registry import HashFile, ModelKind
from pytest_evals.models.spec import ModelSpec, readers_of

if TYPE_CHECKING:
    from pytest_evals.models.openai.model import OpenAIModel

_WITHOUT_EFFECT = frozenset(
    {
        *("api_key_env", "base_url", "concurrency", "max_cost", "max_length"),
        *("max_requests", "max_retries", "price_in", "price_out", "reasoning"),
        *("stream", "timeout", "tokenizer"),
    }
)
"""Settings that are in the fingerprint in another form or do not affect outputs."""


def _open(spec: ModelSpec) -> OpenAIModel:
    _check_ready(spec)
    settings = read_settings(spec)
    from pytest_evals.models.openai.model import OpenAIModel

    probed = _PROBED.pop(str(spec), None)
    return OpenAIModel(str(spec), settings, _key(settings), probed=probed)


def _check_ready(spec: ModelSpec) -> None:
    """Check the model's requirements on this machine without sending a request."""
    settings = read_settings(spec)
    if settings.tokenizer:
        for library in ("torch", "transformers"):
            if find_spec(library) is None:
                raise MissingExtraError("the openai model's tokenizer", library, "hf")
    _key(settings)
    if fault := network_fault(settings.base_url):
        raise OptionError(fault)


_PROBED: dict[str, OpenAIModel] = {}
"""Models that have probed their servers for a session, closed. The session's own model
of the spec does not repeat the probe."""


def _why_unable(spec: ModelSpec) -> str:
    """Why a server cannot score strings, determined by a few requests. Empty if it can,
    or if it does not reply: the first request will report that."""
    _PROBED.pop(str(spec), None)  # of an earlier session in this process
    try:
        model = _open(spec)
    except EvalsError:
        return ""
    from pytest_evals.models.openai.capability_probe import ScoringUnsupportedError

    try:
        model.be_able_to_score()
    except ScoringUnsupportedError as error:
        return str(error)
    except EvalsError:
        return ""
    finally:
        model.close()
    _PROBED[str(spec)] = model
    return ""


def _key(settings: OpenAISettings) -> str:
    """The API key; empty if missing and the server does not need one."""
    variable = settings.api_key_env
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise OptionError(
            f"the key in the environment variable {variable} has characters that keys "
            f"do not have\n  fix: copy the key again, and export {variable}=…"
        )
    learn_secret(key)
    if key or (not settings.is_openai and variable == "OPENAI_API_KEY"):
        return key
    other = "" if settings.is_openai else ", or leave api_key_env out"
    raise OptionError(
        f"the environment variable {variable} holds no key for {settings.url}\n"
        f"  fix: export {variable}=…{other}"
    )


def _fingerprint(spec: ModelSpec, hash_file: HashFile) -> Mapping[str, Any] | None:
    """Everything in a spec that affects the outputs as JSON values, without keys and
    passwords; ``None`` if the tokenizer's files are unknown. Servers may change a model
    without notice; ``revision`` distinguishes versions."""
    settings = read_settings(spec)
    others = {
        field.name: getattr(settings, field.name)
        for field in fields(settings)
        if field.name not in _WITHOUT_EFFECT
    }
    tokenizer: Mapping[str, Any] | None = {}
    if settings.tokenizer:
        tokenizer = provenance(settings.tokenizer, "", hash_file)
        if tokenizer is None:
            return None
    templated = tokenizer and settings.template_args
    return {
        "kind": "openai",
        "url": settings.url,
        **others,
        **({"tokenizer": tokenizer} if tokenizer else {}),
        # Left out where they are not given: responses of earlier versions stay usable.
        **({"template_args": settings.template_args} if templated else {}),
        **({"max_length": settings.max_length} if settings.max_length else {}),
        "thinks": settings.thinks,
    }


def _spend_plan(spec: ModelSpec, requests: Sequence[Request]) -> SpendPlan:
    """Requests, tokens and cost of a run; loads the tokenizer if the spec has one."""
    settings = read_settings(spec)
    counted = None
    if settings.tokenizer:
        from pytest_evals.models.openai.tokenizer import ServerTokenizer

        encoding = ServerTokenizer(settings.tokenizer, settings.template_args)
        counted = encoding.count(requests, settings.max_length)
    names = [field.name for field in fields(SpendLimits)]
    limits = SpendLimits(**{name: getattr(settings, name) for name in names})
    return spend_plan_of(limits, requests, counted)


OPENAI = ModelKind(
    name="openai",
    example="openai:MODEL,base_url=…",
    open=_open,
    check=check_openai,
    check_ready=_check_ready,
    why_unfit=why_unfit,
    why_unable=_why_unable,
    fingerprint=_fingerprint,
    address=lambda spec: (
        "" if "base_url" in spec.arguments else read_settings(spec).url
    ),
    spend_plan=_spend_plan,
    arguments=frozenset(readers_of(OpenAISettings)),
)
