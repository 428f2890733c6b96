"""Model kind ``serve``: a command that starts an OpenAI-compatible server: what is
started, what of it identifies the model, and its log. Arguments of its specs say how
the server is treated; the others are those of the ``openai:`` model that it becomes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

from pytest_evals.core.model import Model
from pytest_evals.errors import ModelError, OptionError
from pytest_evals.masking.registry import learned
from pytest_evals.masking.values import masked_words
from pytest_evals.models import registry
from pytest_evals.models.registry import HashFile, ModelKind
from pytest_evals.models.spec import (
    Arguments,
    ModelSpec,
    argument,
    readers_of,
    seconds,
    whole,
)

_PREFIX, _SUFFIX = "evals-server-", ".log"
PORT = "{port}"
_TAKE_PORT = frozenset({"llama-server", "llama_cpp", "sglang", "transformers", "vllm"})
"""Programs and modules whose servers take ``--port N``."""
_CONTAINERS = ("docker", "podman")
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_NO_PORT = (
    "the command of the server has no place for the port\n"
    "  fix: write {port} where the command takes the number, such as --port {port}"
)
SERVED = "openai"  # The kind of model that a started server is
_ARGUMENTS = Arguments("serve")
_UNKNOWN = "its own name"  # The served model's name while it is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, split into words; ``{port}`` is replaced by the port.

    ``environment``: variables in front of it, ``NAME=VALUE``. No shell reads it.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def port(self) -> int | None:
        """The port that the command fixes; ``None`` if a free one is put in."""
        for before, word in pairwise(("", *self.words)):
            found = re.fullmatch(r"--port=(\d+)", word)
            if found or (before == "--port" and word.isdecimal()):
                return int(found[1] if found else word)
        return None

    def named(self, name: str) -> tuple[Command, str]:
        """The command and the name of its container, which is outside of the process
        group and ended by its name; ``name`` unless the command has one."""
        program = Path(self.words[0]).name
        if program not in _CONTAINERS or "run" not in self.words[1:]:
            return self, ""
        for before, word in pairwise(self.words):
            if before == "--name" or word.startswith("--name="):
                return self, word.removeprefix("--name=")
        at = self.words.index("run") + 1
        words = (*self.words[:at], "--name", name, *self.words[at:])
        return Command(words=words, environment=self.environment), name

    @property
    def identity(self) -> Mapping[str, object]:
        """JSON values that are equal for commands whose servers give equal answers:
        without port, host and secrets."""
        return {
            "command": [*_without_address(self.masked.words)],
            "environment": dict(sorted(self.masked.environment.items())),
        }

    @property
    def masked(self) -> Command:
        """The command without secrets, which are learned."""
        variables = masked_words([f"{k}={v}" for k, v in self.environment.items()])
        values = (one.partition("=")[2] for one in variables)
        return Command(
            words=tuple(masked_words(self.words)),
            environment=dict(zip(self.environment, values, strict=True)),
        )

    def __str__(self) -> str:
        """The command without secrets, as a shell would take it."""
        shown = self.masked
        variables = (f"{k}={shlex.quote(v)}" for k, v in shown.environment.items())
        words = (word if PORT in word else shlex.quote(word) for word in shown.words)
        return " ".join((*variables, *words))


def read_command(text: str) -> Command:
    """Split a command; ``OptionError`` if a quote is not closed, or the program or the
    place of the port is missing. ``--port {port}`` is added to the commands of vLLM,
    SGLang, llama.cpp and Transformers if they have no port."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        message = f"the command of the server cannot be split into words: {error}"
        raise OptionError(f"{message}\n  fix: close the quotes of {text!r}") from None
    environment = {}
    while words and (found := _VARIABLE.fullmatch(words[0])):
        environment[found[1]] = found[2]
        del words[0]
    if not words:
        raise OptionError(f"{text!r} is not the command of a server: no program")
    command = Command(words=tuple(words), environment=environment)
    values = (*words, *environment.values())
    if any(PORT in one for one in values) or command.port is not None:
        return command
    modules = (b.partition(".")[0] for a, b in pairwise(words) if a == "-m")
    if _TAKE_PORT.isdisjoint((Path(words[0]).name, *modules)):
        raise OptionError(_NO_PORT)
    return Command(words=(*words, "--port", PORT), environment=environment)


def _without_address(words: tuple[str, ...]) -> Iterator[str]:
    options = ("--host", "--port")
    for before, word in pairwise(("", *words)):
        is_value = before in options and word not in options
        if not (is_value or word in options or re.match(r"--(host|port)=", word)):
            yield word


def new_log() -> str:
    """Create an empty log, a temporary file that is copied into the run's folder."""
    handle, path = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX)
    os.close(handle)
    return path


def log_of(info: Mapping[str, Any]) -> Path | None:
    """The log that a model's info names; ``None`` for any file that is not such a log,
    since the info of a custom model may contain any values."""
    server = info.get("server")
    given = server.get("log") if isinstance(server, Mapping) else None
    if not isinstance(given, str):
        return None
    path = Path(given)
    is_ours = path.name.startswith(_PREFIX) and path.suffix == _SUFFIX
    is_ours = is_ours and path.parent == Path(tempfile.gettempdir())
    return path if is_ours and not path.is_symlink() else None


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
    readers = readers_of(ServeSettings)
    if "base_url" in spec.arguments:
        raise OptionError(
            "the serve model takes no base_url: it knows the server's address"
        )
    ours = {name: value for name, value in spec.arguments.items() if name in readers}
    others = {
        name: value for name, value in spec.arguments.items() if name not in readers
    }
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
            "log": order["log"],
        }
        return ServedModel(str(spec), server, registry.open_model(served), about)
    except BaseException:
        server.close()
        raise


def _order(settings: ServeSettings) -> dict[str, Any]:
    """What the supervisor starts; see :mod:`pytest_evals.models.serve.supervisor`."""
    command = settings.command
    content = json.dumps([command.words, dict(command.environment), os.getcwd()])
    digest = blake2b(content.encode(), digest_size=6).hexdigest()
    named, container = command.named(f"evals-{os.getpid()}-{digest}")
    shown = str(command)  # learns its secrets
    return {
        "key": f"{shown} ({digest})",  # equal for orders that are one server
        "words": named.words,
        "environment": dict(named.environment),
        "folder": os.getcwd(),
        "port": command.port or 0,  # 0 for a free one
        "ready": settings.ready,
        "timeout_s": settings.startup_timeout,
        "restart": settings.restart,
        "parallel": settings.parallel,
        "container": container,
        "log": new_log(),
        "secrets": tuple(learned()),  # strings that the log does not show
    }


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
