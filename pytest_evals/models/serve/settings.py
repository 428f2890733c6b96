"""Arguments of ``serve:`` specs: the command, how the server is treated, and the
arguments of the ``openai:`` model that it becomes."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from pytest_evals.errors import OptionError
from pytest_evals.models.registry import KINDS
from pytest_evals.models.serve.command import Command, read_command
from pytest_evals.models.spec import Arguments, ModelSpec, argument, readers_of, whole

SERVED = "openai"
"""The kind of model that a started server is."""
_ARGUMENTS = Arguments("serve")
_UNKNOWN = "its own name"
"""The served model's name while it is unknown."""


def _seconds(kind: Arguments, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise kind.wrong(name, value, "; write seconds, more than 0")
    return number


def _path(kind: Arguments, name: str, value: str) -> str:
    if not value.startswith("/"):
        raise kind.wrong(name, value, "; write a path on the server, such as /health")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """A command and how its server is treated; most fields are arguments."""

    command: Command
    served: ModelSpec
    """The spec of the model behind the server, without its address."""
    model: str = argument(Arguments.text, "")
    """The model's name on the server; empty for the first one that it lists."""
    ready: str = argument(_path, "/v1/models")
    """The path that answers when the server is ready."""
    startup_timeout: float = argument(_seconds, 600.0)
    """Seconds until the server must be ready."""
    restart: int = argument(whole(0), 0)
    """How often a server that ends during the run is started again."""
    parallel: bool = argument(Arguments.flag, False)
    """Whether it may run at the same time as others with this argument."""


def argument_names() -> Collection[str]:
    """Names of all arguments: the command ends at the first of them."""
    return {*readers_of(ServeSettings), *KINDS[SERVED].arguments} - {"base_url"}


def read_settings(spec: ModelSpec) -> ServeSettings:
    """The settings of a spec.

    Raises:
        OptionError: The command cannot be split, has no place for a port, or an
            argument is unknown or has a bad value.
    """
    own = readers_of(ServeSettings)
    known = argument_names()
    for name in spec.arguments:
        if name == "base_url":
            raise OptionError(
                "the serve model takes no base_url: it knows the server's address"
            )
    ours = {name: value for name, value in spec.arguments.items() if name in own}
    others = {name: value for name, value in spec.arguments.items() if name not in own}
    unknown = next((name for name in others if name not in known), None)
    if unknown is not None:  # the message of the kind that has most of them
        KINDS[SERVED].check(ModelSpec(kind=SERVED, target="x", arguments=others))
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
