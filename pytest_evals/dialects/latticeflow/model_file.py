"""Reads model files: the connection of a model and how it is opened.

Models behind an OpenAI-compatible API are opened as ``openai:`` models. Functions and
servers with other APIs exchange arbitrary JSON.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from pytest_evals.core.dialogue import ModelSource
from pytest_evals.core.model import Model, ModelOpener
from pytest_evals.core.request import Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.data.network_variables import network_fault
from pytest_evals.dialects.latticeflow.entities import Entity
from pytest_evals.dialects.latticeflow.fields import read_header, required_text
from pytest_evals.dialects.latticeflow.snippets.snippet import snippet_of
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import (
    EvalsError,
    MissingExtraError,
    OptionError,
    Problem,
    TaskFileError,
)
from pytest_evals.masking.values import masked, masked_text
from pytest_evals.models.latticeflow.adapters import BUILT_IN, Adapter, ModelInfo
from pytest_evals.models.latticeflow.function_model import FunctionModel
from pytest_evals.models.latticeflow.spending import spend_plan
from pytest_evals.models.openai.settings import OPENAI_URL, read_settings
from pytest_evals.models.spec import ModelSpec

_TASKS = ("chat_completion", "embeddings", "custom")
_PROVIDERS: Mapping[str, str] = {
    "anthropic": "https://api.anthropic.com/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "novita": "https://api.novita.ai/v3/openai",
    "openai": "https://api.openai.com/v1",
    "sambanova": "https://api.sambanova.ai/v1",
    "together": "https://api.together.xyz/v1",
}
"""Provider → base URL of its OpenAI-compatible API."""
_UNSUPPORTED = (
    "aws_bedrock",
    "azure_foundry",
    "claude_managed_agents",
    "dify",
    "langsmith",
)
_CONNECTIONS = (
    "custom_connection",
    "custom_inference",
    "placeholder",
    "provider_connection",
    *_UNSUPPORTED,
)
_SERVED = ("custom_connection", "provider_connection")
Adapters = Callable[[str, Section], Adapter | None]
"""Key of an adapter and the section that names it → the adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model that can be opened.

    Args:
        source: How it is opened.
        native: Whether it exchanges LatticeFlow's JSON.
        takes_sample: Whether it receives the sample.
    """

    key: str
    source: ModelSource
    native: bool = True
    takes_sample: bool = False


class _Opener(ModelOpener):
    """Opens a model; a callable with a name. Openers of equal files are equal."""

    def __init__(
        self,
        name: str,
        fingerprint: Mapping[str, Any],
        open_: Callable[[], Model],
        why_unready: Callable[[], EvalsError | None] = lambda: None,
        spend_plan: Callable[[Sequence[Request]], SpendPlan | None] = lambda _: None,
    ) -> None:
        self.__name__ = self.name = name
        self.fingerprint, self._open = fingerprint, open_
        self._identity = json.dumps(fingerprint)
        self._why_unready, self._spend_plan = why_unready, spend_plan

    def __call__(self) -> Model:
        return self._open()

    def why_unready(self) -> EvalsError | None:
        return self._why_unready()

    def spend_plan(self, requests: Sequence[Request]) -> SpendPlan | None:
        return self._spend_plan(requests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Opener) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


class _Context:
    """The fields of a model file that all connections share."""

    def __init__(self, entity: Entity, top: Section, adapters: Adapters) -> None:
        self.entity, self.adapters = entity, adapters
        self.task = top.one_of("task", "kind of model", _TASKS, _TASKS[0])
        self.per_minute = float(top.take("rate_limit", (int, float), 0))
        self.width = top.whole("max_concurrent_requests", 1, 1)
        self.limits = _limits(top)
        self.sets_width = top.values.get("max_concurrent_requests") is not None

    def info(self, model_key: str) -> ModelInfo:
        return ModelInfo(self.entity.key, model_key, self.task)

    def fingerprint(self, raw: Mapping[str, Any], adapter: Adapter) -> dict[str, Any]:
        """Return the fingerprint: the file without secrets, and its adapter. Models
        with equal fingerprints give equal answers."""
        config_text = json.dumps(masked(raw), sort_keys=True, default=str)
        return {
            "kind": "latticeflow",
            "key": self.entity.key,
            "config": hashlib.sha256(config_text.encode()).hexdigest(),
            "adapter": adapter.key,
        }


_LIMITS = ("max_requests", "max_cost", "price_in", "price_out")


def _limits(top: Section) -> dict[str, Any]:
    """Return the spend caps and prices of a file, which are those of ``openai:``
    models."""
    given = {name: top.raw(name) for name in _LIMITS}
    texts = {name: str(one) for name, one in given.items() if one is not None}
    arguments = {**texts, "base_url": OPENAI_URL}  # not OPENAI_BASE_URL
    try:
        settings = read_settings(
            ModelSpec(kind="openai", target="model", arguments=arguments)
        )
    except OptionError as error:
        what, _, fix = (
            str(error).replace("the openai model", "the model").partition("\n  fix: ")
        )
        top.problem(next(iter(texts)), what, fix.replace("=", ":"))
        return {}
    return {name: getattr(settings, name) for name in texts}


def read_model(entity: Entity, raw: Mapping[str, Any], adapters: Adapters) -> ModelFile:
    """Return the model of a file.

    Args:
        entity: The file, with all secrets filled in.
        raw: Its ``config`` without secrets.
    """
    problems: list[Problem] = []
    top = Section(entity.file, problems)
    read_header(top, "a model", ("key", "display_name"), provided=True)
    top.raw("secrets")
    context = _Context(entity, top, adapters)
    config = top.section("config")
    top.close("a model")
    model = None
    if config is None:
        if top.values.get("config") is None:
            fix = "config: {connection_type: custom_connection, url: …}"
            top.problem("config", "config is missing", fix)
    else:
        key = "connection_type"
        default = _CONNECTIONS[0] if config.values.get(key) is None else ""
        kind = config.one_of(key, "connection type", _CONNECTIONS, default)
        if kind:
            model = _READERS.get(kind, _unsupported)(config, context, raw)
            if context.limits and kind not in _SERVED:
                what = f"models with connection_type: {kind} have no spend cap"
                top.problem(next(iter(context.limits)), what)
            config.close(f"a connection of type {kind}")
    if problems or model is None:
        raise TaskFileError(problems)
    return model


def _unsupported(config: Section, context: _Context, raw: Mapping[str, Any]) -> None:
    kind = config.values.get("connection_type")
    for key in config.values:
        config.raw(key)
    what = f"models with connection_type: {kind} are not supported"
    fix = "select another model with --model (or --evals-judge for a judge)"
    config.problem("connection_type", what, fix)


def _placeholder(
    config: Section, context: _Context, raw: Mapping[str, Any]
) -> ModelFile:
    """Return a model with empty answers."""

    def run(body: str, sample: Mapping[str, Any] | None) -> str:
        return '{"choices": [{"message": {"role": "assistant", "content": ""}}]}'

    return _function(context, raw, BUILT_IN["latticeflow$identity"], run)


def _inference(
    config: Section, context: _Context, raw: Mapping[str, Any]
) -> ModelFile | None:
    adapter = _adapter(config, context)
    environment = config.take("environment", dict, {})
    if config.values.get("environment") is None:
        config.problem("environment", "environment is missing", "environment: {}")
    seconds = config.take("timeout", (int, float), 0)
    if seconds <= 0:
        what = "timeout must be a number of seconds above 0"
        config.problem("timeout", what, "timeout: 60")
    code = replace(config.file.code, seconds=float(seconds))
    timed = Section(
        replace(config.file, code=code), config.problems, config.values, config.steps
    )
    config.raw("run_inference_snippet")
    function = snippet_of(timed, "run_inference_snippet", "run_inference")
    if adapter is None or function is None:
        return None
    takes_sample = function.declares("sample")

    def run(body: str, sample: Mapping[str, Any] | None) -> Any:
        more = (sample,) if takes_sample else ()
        return function(body, dict(environment), *more)

    return _function(context, raw, adapter, run, takes_sample=takes_sample)


def _function(
    context: _Context,
    raw: Mapping[str, Any],
    adapter: Adapter,
    run: Callable[[str, Mapping[str, Any] | None], Any],
    *,
    takes_sample: bool = False,
) -> ModelFile:
    fingerprint = context.fingerprint(raw, adapter)
    width = context.width

    def open_() -> Model:
        info = context.info(context.entity.key)
        return FunctionModel(info, adapter, run, fingerprint, width)

    return ModelFile(
        key=context.entity.key,
        source=_Opener(context.entity.key, fingerprint, open_),
        takes_sample=takes_sample,
    )


def _connection(
    config: Section, context: _Context, raw: Mapping[str, Any]
) -> ModelFile | None:
    adapter = _adapter(config, context)
    url = required_text(config, "url", "http://localhost:8000/complete")
    if url and not re.match(r"https?://[^/\s]", url):
        config.problem("url", f"url is not a valid URL: {masked_text(url)!r}")
    headers = _headers(config)
    model_key = config.text("model_key")
    verify, trusted_ca = _tls(config)
    if adapter is None:
        return None
    fingerprint, info = context.fingerprint(raw, adapter), context.info(model_key)
    unready = partial(_why_unready, url, verify and not trusted_ca)

    def open_() -> Model:
        error = unready()
        if error is not None:
            raise error
        from pytest_evals.models.latticeflow.http_model import Connection, HttpModel

        connection = Connection(
            url=url,
            headers=headers,
            concurrency=context.width if context.sets_width else 8,
            per_minute=context.per_minute,
            verify=verify,
            trusted_ca=trusted_ca,
            **context.limits,
        )
        return HttpModel(info, adapter, connection, fingerprint)

    def plan(requests: Sequence[Request]) -> SpendPlan:
        return spend_plan(requests, adapter, info, context.limits)

    return ModelFile(
        key=context.entity.key,
        source=_Opener(context.entity.key, fingerprint, open_, unready, plan),
    )


def _why_unready(url: str, reads_certificates: bool) -> EvalsError | None:
    if find_spec("openai") is None:
        return MissingExtraError("a model with a url", "openai", "openai")
    fault = network_fault(url, reads_certificates=reads_certificates)
    return OptionError(fault) if fault else None


def _headers(config: Section) -> dict[str, str]:
    model = {}
    for name, value in config.take("custom_headers", dict, {}).items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            model[str(name)] = str(value)
        else:
            config.problem("custom_headers", f"the header {name!r} must be a string")
    key = config.text("api_key")
    return {"Authorization": f"Bearer {key}", **model} if key else model


def _tls(config: Section) -> tuple[bool, str]:
    """Return whether the certificate is verified, and the trusted certificates."""
    outer = config.section("tls_context")
    inner = outer.section("validation_context") if outer is not None else None
    verify, trusted_ca = True, ""
    if inner is not None:
        known = ("verify_trust_chain", "accept_untrusted")
        word = inner.one_of("trust_chain_verification", "check", known, known[0])
        verify = word == known[0]
        try:
            given = inner.text("trusted_ca")
            trusted_ca = base64.b64decode(given, validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            inner.problem(
                "trusted_ca", "trusted_ca must be a base64-encoded certificate"
            )
        inner.close("validation_context")
    if outer is not None:
        outer.close("tls_context")
    return verify, trusted_ca


def _provider(
    config: Section, context: _Context, raw: Mapping[str, Any]
) -> ModelFile | None:
    known = (*sorted(_PROVIDERS), "latticeflow")
    provider = config.one_of("provider_id", "provider", known, "")
    model = required_text(config, "model_key", "gpt-4.1-nano")
    if provider == "latticeflow":
        what = "models hosted by LatticeFlow are not supported"
        config.problem("provider_id", what, "select another model with --model")
    if not provider or provider == "latticeflow" or not model:
        return None
    variable = f"{provider.upper()}_API_KEY"
    url = os.environ.get(f"{provider.upper()}_BASE_URL") or _PROVIDERS[provider]
    spec = f'openai:"{model}",base_url={url},api_key_env={variable}'
    if context.sets_width:
        spec += f",concurrency={context.width}"
    spec += "".join(f",{name}={value}" for name, value in context.limits.items())
    return ModelFile(key=context.entity.key, source=spec, native=False)


def _adapter(config: Section, context: _Context) -> Adapter | None:
    """Return the adapter that a connection names."""
    inner = config.section("adapter")
    if inner is None:
        return BUILT_IN["latticeflow$identity"]
    key = required_text(inner, "key", "latticeflow$openai_chat_completion")
    inner.close("adapter")
    if key in BUILT_IN:
        return BUILT_IN[key]
    try:
        return context.adapters(key, inner) if key else None
    except TaskFileError as error:
        config.problems.extend(error.problems)
        return None


_READERS: Mapping[
    str, Callable[[Section, _Context, Mapping[str, Any]], ModelFile | None]
] = {
    "custom_connection": _connection,
    "custom_inference": _inference,
    "placeholder": _placeholder,
    "provider_connection": _provider,
}
