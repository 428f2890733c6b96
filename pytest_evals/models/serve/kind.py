"""Model kind ``serve``: a command that starts an OpenAI-compatible server."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pytest_evals.core.model import Model
from pytest_evals.core.request import Request
from pytest_evals.core.run_plan import SpendPlan
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.masking.registry import learned
from pytest_evals.models import registry
from pytest_evals.models.registry import HashFile, ModelKind, TaskRequirements
from pytest_evals.models.serve.log import new_log
from pytest_evals.models.serve.settings import (
    ServeSettings,
    argument_names,
    read_settings,
)
from pytest_evals.models.spec import ModelSpec

if TYPE_CHECKING:
    from pytest_evals.models.serve.client import Order


def _check(spec: ModelSpec) -> None:
    registry.check_spec(read_settings(spec).served)


def _check_ready(spec: ModelSpec) -> None:
    """Check that the program exists; nothing is started.

    Raises:
        OptionError: The program does not exist.
    """
    settings = read_settings(spec)
    program = settings.command.words[0]
    if shutil.which(program) is None:
        raise OptionError(
            f"the program {program!r}, which starts the server, was not found\n"
            "  fix: install it, or write its path"
        )
    registry.check_ready(settings.served)


def _open(spec: ModelSpec) -> Model:
    """Start the server of a spec, or use the running one, and open its model.

    Raises:
        ModelError: It cannot be started, ends, or is not ready in time.
    """
    from pytest_evals.models.serve.client import RunningServer
    from pytest_evals.models.serve.model import ServedModel, facts_of

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
    from pytest_evals.models.serve.client import Order

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


def _why_unfit(spec: ModelSpec, needs: TaskRequirements) -> str:
    return registry.why_unfit(read_settings(spec).served, needs)


def _fingerprint(spec: ModelSpec, hash_file: HashFile) -> Mapping[str, Any] | None:
    """The command without port, host and secrets, and the model's own fingerprint."""
    settings = read_settings(spec)
    found = registry.fingerprint_of(settings.served, hash_file)
    if found is None:
        return None
    return {**found, "url": "", "serve": settings.command.identity}


def _spend_plan(spec: ModelSpec, requests: Sequence[Request]) -> SpendPlan | None:
    return registry.spend_plan(read_settings(spec).served, requests)


SERVE = ModelKind(
    name="serve",
    example="serve:vllm serve org/name",
    open=_open,
    check=_check,
    check_ready=_check_ready,
    why_unfit=_why_unfit,
    fingerprint=_fingerprint,
    spend_plan=_spend_plan,
    ends_command=argument_names,
)
