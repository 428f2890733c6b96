"""Reads model and adapter files: the connection of a model and how it is opened
(``_CONNECTIONS`` has all types), and the templates from model input to request body and
from reply to model output.

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
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import ModelSource
from pytest_evals.core.model import Model, ModelOpener
from pytest_evals.core.request import Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.data.network_variables import network_fault
from pytest_evals.errors import EvalsError, OptionError, TaskFileError
from pytest_evals.guests.latticeflow import models
from pytest_evals.guests.latticeflow.entities import Entity
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.models import Adapter, ModelInfo, Run
from pytest_evals.guests.latticeflow.prompts.items import wrap
from pytest_evals.guests.latticeflow.prompts.templates import SampleTemplate
from pytest_evals.guests.latticeflow.snippets import snippet_of
from pytest_evals.masking.values import masked, masked_text
from pytest_evals.models.openai.settings import OPENAI_URL, read_settings
from pytest_evals.models.spec import ModelSpec


def read_adapter(entity: Entity) -> Adapter:
    """Return the adapter of a file in which all secrets are filled in."""
    top = Keys(entity.file, [])
    top.header("a model adapter", ("key", "display_name"), provided=True)
    top.text("provider")
    for ignored in ("secrets", "task"):
        top.raw(ignored)
    request = _read_template(top, "process_input")
    reply = _read_template(top, "process_output")
    top.finish("a model adapter")

    def to_body(model_input: Any, kwargs: Mapping[str, Any], info: ModelInfo) -> str:
        given = {"input": wrap(model_input), "kwargs": wrap(kwargs)}
        return request.render({**given, "model_info": info.shown})

    def to_output(text: str, status: int, info: ModelInfo) -> Any:
        given = {"body": text, "status_code": status, "model_info": info.shown}
        return models.parsed(reply.render(given), f"{reply.place}: process_output")

    sources = json.dumps([request.text, reply.text])
    return Adapter(
        key=f"{entity.key}:{hashlib.sha256(sources.encode()).hexdigest()}",
        to_body=to_body,
        to_output=to_output,
        takes_faults="status_code" in reply.text,
    )


def _read_template(top: Keys, key: str) -> SampleTemplate:
    inner = top.required_section(key, "{language: jinja, source_code: …}")
    inner.one_of("language", "language", ("jinja",), "jinja")
    result = inner.template("source_code", "{{ input | tojson }}")
    inner.close(key)
    return result


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
_LIMITS = ("max_requests", "max_cost", "price_in", "price_out")
_SERVED = ("custom_connection", "provider_connection")
_IDENTITY = "latticeflow$identity"
_EMPTY = '{"choices": [{"message": {"role": "assistant", "content": ""}}]}'
Adapters = Callable[[str, Keys], Adapter | None]
"""Key of an adapter and the section that names it → the adapter."""


class ModelFile(NamedTuple):
    """A model that can be opened."""

    source: ModelSource
    native: bool = True  # whether it exchanges LatticeFlow's JSON
    takes_sample: bool = False


@dataclass(frozen=True)
class _Opener(ModelOpener):
    """Opens a model. Openers of equal files are equal."""

    name: str = field()  # without the default of the base class
    fingerprint: Mapping[str, Any] = field(hash=False)
    open: Callable[[], Model] = field(compare=False)
    fault: Callable[[], EvalsError | None] = field(compare=False, default=lambda: None)
    plan: Callable[[Sequence[Request]], SpendPlan | None] = field(
        compare=False, default=lambda _: None
    )

    def __call__(self) -> Model:
        return self.open()

    def why_unready(self) -> EvalsError | None:
        return self.fault()

    def spend_plan(self, requests: Sequence[Request]) -> SpendPlan | None:
        return self.plan(requests)


def read_model(entity: Entity, raw: Mapping[str, Any], adapters: Adapters) -> ModelFile:
    """Return the model of a file with all secrets filled in. ``raw``: its ``config``
    without secrets."""
    top = Keys(entity.file, [])
    top.header("a model", ("key", "display_name"), provided=True)
    top.raw("secrets")
    reader = _ModelReader(entity.key, top, raw, adapters)
    fix = "{connection_type: custom_connection, url: …}"
    config = top.required_section("config", fix)
    top.close("a model")
    key, known, model = "connection_type", tuple(_CONNECTIONS), None
    default = known[0] if config.values.get(key) is None else ""
    kind = config.one_of(key, "connection type", known, default)
    if kind:
        model = _CONNECTIONS[kind](reader, config)
        if reader.limits and kind not in _SERVED:
            message = f"models with connection_type: {kind} have no spend cap"
            top.problem(next(iter(reader.limits)), message)
        config.close(f"a connection of type {kind}")
    if top.problems or model is None:
        raise TaskFileError(top.problems)
    return model


class _ModelReader:
    """Reads connections, with the fields of a model file that all of them share."""

    def __init__(
        self, key: str, top: Keys, raw: Mapping[str, Any], adapters: Adapters
    ) -> None:
        self._key, self._raw, self._adapters = key, raw, adapters
        self._task = top.one_of("task", "kind of model", _TASKS, _TASKS[0])
        self._per_minute = float(top.take("rate_limit", (int, float), 0))
        self._width = top.whole("max_concurrent_requests", 1, 1)
        self._sets_width = top.values.get("max_concurrent_requests") is not None
        self.limits = _limits(top)

    def unsupported(self, config: Keys) -> None:
        for key in config.values:
            config.raw(key)
        kind = config.values["connection_type"]
        message = f"models with connection_type: {kind} are not supported"
        fix = "select another model with --model (or --evals-judge for a judge)"
        config.problem("connection_type", message, fix)

    def placeholder(self, config: Keys) -> ModelFile:
        return self._function(models.BUILT_IN[_IDENTITY], lambda _body, _sample: _EMPTY)

    def inference(self, config: Keys) -> ModelFile | None:
        adapter = self._adapter(config)
        config.need("environment", "{}")
        environment = config.take("environment", dict, {})
        seconds = config.take("timeout", (int, float), 0)
        if seconds <= 0:
            message = "timeout must be a number of seconds above 0"
            config.problem("timeout", message, "timeout: 60")
        key, name = "run_inference_snippet", "run_inference"
        function = snippet_of(config, key, name, float(seconds))
        if adapter is None:
            return None
        takes_sample = function.declares("sample")

        def run(body: str, sample: Mapping[str, Any] | None) -> Any:
            more = (sample,) if takes_sample else ()
            return function(body, dict(environment), *more)

        return self._function(adapter, run, takes_sample=takes_sample)

    def connection(self, config: Keys) -> ModelFile | None:
        adapter = self._adapter(config)
        url = config.required_text("url", "http://localhost:8000/complete")
        if url and not re.match(r"https?://[^/\s]", url):
            config.problem("url", f"url is not a valid URL: {masked_text(url)!r}")
        headers, model_key = _headers(config), config.text("model_key")
        verify, trusted_ca = _tls(config)
        if adapter is None:
            return None
        fingerprint, info = self._fingerprint(adapter), self._info(model_key)

        def unready() -> EvalsError | None:
            fault = network_fault(url, reads_certificates=verify and not trusted_ca)
            return OptionError(fault) if fault else None

        def open_() -> Model:
            if (error := unready()) is not None:
                raise error
            from pytest_evals.guests.latticeflow.http_model import Connection, HttpModel

            connection = Connection(
                url=url,
                headers=headers,
                concurrency=self._width if self._sets_width else 8,
                per_minute=self._per_minute,
                verify=verify,
                trusted_ca=trusted_ca,
                **self.limits,
            )
            return HttpModel(info, adapter, connection, fingerprint)

        plan = partial(
            models.spend_plan, adapter=adapter, info=info, limits=self.limits
        )
        return ModelFile(_Opener(self._key, fingerprint, open_, unready, plan))

    def provider(self, config: Keys) -> ModelFile | None:
        known = (*sorted(_PROVIDERS), "latticeflow")
        provider = config.one_of("provider_id", "provider", known, "")
        model = config.required_text("model_key", "gpt-4.1-nano")
        if provider == "latticeflow":
            message = "models hosted by LatticeFlow are not supported"
            config.problem("provider_id", message, "select another model with --model")
        if provider not in _PROVIDERS or not model:
            return None
        name = provider.upper()
        url = os.environ.get(f"{name}_BASE_URL") or _PROVIDERS[provider]
        settings = {"base_url": url, "api_key_env": f"{name}_API_KEY"}
        if self._sets_width:
            settings["concurrency"] = str(self._width)
        listed = [f"{key}={one}" for key, one in {**settings, **self.limits}.items()]
        source = ",".join([f'openai:"{model}"', *listed])
        return ModelFile(source, native=False)

    def _function(
        self, adapter: Adapter, run: Run, *, takes_sample: bool = False
    ) -> ModelFile:
        fingerprint, info = self._fingerprint(adapter), self._info(self._key)

        def open_() -> Model:
            return models.FunctionModel(info, adapter, run, fingerprint, self._width)

        source = _Opener(self._key, fingerprint, open_)
        return ModelFile(source, takes_sample=takes_sample)

    def _adapter(self, config: Keys) -> Adapter | None:
        inner = config.section("adapter")
        if inner is None:
            return models.BUILT_IN[_IDENTITY]
        key = inner.required_text("key", "latticeflow$openai_chat_completion")
        inner.close("adapter")
        if key in models.BUILT_IN:
            return models.BUILT_IN[key]
        return config.or_problems(self._adapters, key, inner) if key else None

    def _info(self, model_key: str) -> ModelInfo:
        return ModelInfo(self._key, model_key, self._task)

    def _fingerprint(self, adapter: Adapter) -> dict[str, Any]:
        """Return the fingerprint: the file without secrets, and its adapter. Models
        with equal fingerprints give equal answers."""
        config = json.dumps(masked(self._raw), sort_keys=True, default=str)
        return {
            "kind": "latticeflow",
            "key": self._key,
            "config": hashlib.sha256(config.encode()).hexdigest(),
            "adapter": adapter.key,
        }


def _limits(top: Keys) -> dict[str, Any]:
    """Return the spend caps and prices of a file, which are those of ``openai:``
    models."""
    given = {name: top.raw(name) for name in _LIMITS}
    texts = {name: str(one) for name, one in given.items() if one is not None}
    arguments = {**texts, "base_url": OPENAI_URL}  # not OPENAI_BASE_URL
    spec = ModelSpec(kind="openai", target="model", arguments=arguments)
    try:
        settings = read_settings(spec)
    except OptionError as error:
        text = str(error).replace("the openai model", "the model")
        message, _, fix = text.partition("\n  fix: ")
        top.problem(next(iter(texts)), message, fix.replace("=", ":"))
        return {}
    return {name: getattr(settings, name) for name in texts}


def _headers(config: Keys) -> dict[str, str]:
    headers = {}
    for name, value in config.take("custom_headers", dict, {}).items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            headers[str(name)] = str(value)
        else:
            config.problem("custom_headers", f"the header {name!r} must be a string")
    key = config.text("api_key")
    return {"Authorization": f"Bearer {key}", **headers} if key else headers


def _tls(config: Keys) -> tuple[bool, str]:
    outer = config.section("tls_context")
    if outer is None:
        return True, ""
    inner = outer.section("validation_context")
    verify, trusted_ca = True, ""
    if inner is not None:
        known = ("verify_trust_chain", "accept_untrusted")
        word = inner.one_of("trust_chain_verification", "check", known, known[0])
        verify = word == known[0]
        try:
            given = inner.text("trusted_ca")
            trusted_ca = base64.b64decode(given, validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            message = "trusted_ca must be a base64-encoded certificate"
            inner.problem("trusted_ca", message)
        inner.close("validation_context")
    outer.close("tls_context")
    return verify, trusted_ca


_CONNECTIONS: Mapping[str, Callable[[_ModelReader, Keys], ModelFile | None]] = {
    "custom_connection": _ModelReader.connection,
    "custom_inference": _ModelReader.inference,
    "placeholder": _ModelReader.placeholder,
    "provider_connection": _ModelReader.provider,
    **dict.fromkeys(
        ("aws_bedrock", "azure_foundry", "claude_managed_agents", "dify", "langsmith"),
        _ModelReader.unsupported,
    ),
}
