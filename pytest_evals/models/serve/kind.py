"""Model kind ``serve``: a command that starts an OpenAI-compatible server. Arguments of
its specs say how the server is treated; the others are those of the ``openai:`` model
that it becomes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pytest_evals.core.model import Model
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.masking.registry import learned
from pytest_evals.models import registry
from pytest_evals.models.registry import HashFile, ModelKind
from pytest_evals.models.serve.command import Command, new_log, read_command
from pytest_evals.models.spec import (
    Arguments,
    ModelSpec,
    argument,
    readers_of,
    seconds,
    whole,
)

if TYPE_CHECKING:
    from pytest_evals.models.serve.model import Order


SERVED = "openai"  # The kind of model that a started server is
_ARGUMENTS = Arguments("serve")
_UNKNOWN = "its own name"  # The served model's name while it is unknown


def _path(kind: Arguments, name: str, value: str) -> str:
    if not value.startswith("/"):
        raise kind.wrong(name, value, "; write a path on the server, such as /health")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """A command and how its server is treated; most fields are arguments."""

    command: Command
    served: ModelSpec  # The spec of the model behind the server, without its address
    model: str = argument(Arguments.text, "")
    """The model's name on the server; empty for the first one that it lists."""
    ready: str = argument(_path, "/v1/models")
    """The path that answers when the server is ready."""
    startup_timeout: float = argument(seconds, 600.0)
    """Seconds until the server must be ready."""
    restart: int = argument(whole(0), 0)
    """How often a server that ends during the run is started again."""
    parallel: bool = argument(Arguments.flag, False)
    """Whether it may run at the same time as others with this argument."""


def argument_names() -> Collection[str]:
    """Names of all arguments: the command ends at the first of them."""
    return {*readers_of(ServeSettings), *registry.KINDS[SERVED].arguments} - {
        "base_url"
    }


def read_settings(spec: ModelSpec) -> ServeSettings:
    """The settings of a spec; ``OptionError`` if the command cannot be split or has no
    place for a port, or an argument is unknown or has a bad value."""
    own = readers_of(ServeSettings)
    if "base_url" in spec.arguments:
        raise OptionError(
            "the serve model takes no base_url: it knows the server's address"
        )
    ours = {name: value for name, value in spec.arguments.items() if name in own}
    others = {name: value for name, value in spec.arguments.items() if name not in own}
    if others.keys() - argument_names():  # the message of the kind that has most
        registry.KINDS[SERVED].check(
            ModelSpec(kind=SERVED, target="x", arguments=others)
        )
    given = _ARGUMENTS.read(replace(spec, arguments=ours), ServeSettings, {})
    return ServeSettings(
        command=read_command(spec.target),
        served=ModelSpec(
            kind=SERVED,
            target=given.get("model") or _UNKNOWN,
            arguments={**others, "base_url": "http://127.0.0.1/v1"},
        ),
        **given,
    )


def _check_ready(spec: ModelSpec) -> None:
    """Check that the program exists; nothing is started."""
    settings = read_settings(spec)
    program = settings.command.words[0]
    if shutil.which(program) is None:
        raise OptionError(
            f"the program {program!r}, which starts the server, was not found\n"
            "  fix: install it, or write its path"
        )
    registry.check_ready(settings.served)


def _open(spec: ModelSpec) -> Model:
    from pytest_evals.models.serve.model import RunningServer, ServedModel, facts_of

    _check_ready(spec)
    settings = read_settings(spec)
    order = _order(settings)
    server = RunningServer(order)
    try:
        address = f"http://127.0.0.1:{server.port}"
        variable = settings.served.arguments.get("api_key_env", "OPENAI_API_KEY")
        name, version = facts_of(address, os.environ.get(variable, ""))
        target = settings.model or name
        if not target:
            raise ModelError(
                f"the server at {address}/v1/models lists no model\n"
                "  fix: name it by model=, or see the server's log"
            )
        arguments = {**settings.served.arguments, "base_url": f"{address}/v1"}
        served = replace(settings.served, target=target, arguments=arguments)
        about = {
            "command": str(settings.command),
            "model": name,
            "version": version,
            "log": order.log,
        }
        return ServedModel(str(spec), server, registry.open_model(served), about)
    except BaseException:
        server.close()
        raise


def _order(settings: ServeSettings) -> Order:
    from pytest_evals.models.serve.model import Order

    command = settings.command
    content = json.dumps([command.words, dict(command.environment), os.getcwd()])
    digest = blake2b(content.encode(), digest_size=6).hexdigest()
    named, container = command.named(f"evals-{os.getpid()}-{digest}")
    shown = str(command)  # learns its secrets
    return Order(
        key=f"{shown} ({digest})",
        words=named.words,
        environment=dict(named.environment),
        folder=os.getcwd(),
        port=command.port or 0,
        ready=settings.ready,
        timeout_s=settings.startup_timeout,
        restart=settings.restart,
        parallel=settings.parallel,
        container=container,
        log=new_log(),
        secrets=tuple(learned()),
    )


def _fingerprint(spec: ModelSpec, hash_file: HashFile) -> Mapping[str, Any] | None:
    """The command without port, host and secrets, and the model's own fingerprint."""
    settings = read_settings(spec)
    found = registry.fingerprint_of(settings.served, hash_file)
    if found is None:
        return None
    return {**found, "url": "", "serve": settings.command.identity}


SERVE = ModelKind(
    name="serve",
    example="serve:vllm serve org/name",
    open=_open,
    check=lambda spec: registry.check_spec(read_settings(spec).served),
    check_ready=_check_ready,
    why_unfit=lambda spec, needs: registry.why_unfit(read_settings(spec).served, needs),
    fingerprint=_fingerprint,
    spend_plan=lambda spec, sent: registry.spend_plan(read_settings(spec).served, sent),
    ends_command=argument_names,
)
