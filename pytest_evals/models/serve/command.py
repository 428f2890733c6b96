"""The command of a server: what is started, what of it identifies the model, and its
log."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.masking.values import masked_words

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
        what = f"the command of the server cannot be split into words: {error}"
        raise OptionError(f"{what}\n  fix: close the quotes of {text!r}") from None
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
