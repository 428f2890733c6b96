"""Suites from ``test/ci/eval`` of TokenSpeed: a server, evalscope, and a threshold."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

from pytest_evals.dialects.foreign_gates.nearest import nearest
from pytest_evals.dialects.foreign_gates.suite import (
    Converted,
    ConvertedGate,
    UnconvertibleError,
    Values,
    command,
    number,
)

_READ_OPTIONS = frozenset(
    {
        *("--api-key", "--api-url", "--datasets", "--eval-batch-size", "--eval-type"),
        *("--limit", "--model", "--model-id", "--stream", "--timeout", "--work-dir"),
    }
)
"""Options of evalscope that are converted, or change no score."""


def convert_tokenspeed(values: Values, folder: str, _: str) -> Converted:
    """``test/ci/eval`` of TokenSpeed: a server, evalscope, and ``score_threshold``."""
    if values.get("score_threshold") is None:
        raise UnconvertibleError("it has no score_threshold")
    threshold = number("score_threshold", values["score_threshold"])
    text = str((values.get("eval") or {}).get("command") or "")
    words = _words("eval.command", text)
    if not any(re.fullmatch(r"(.*/)?evalscope(\.\w+)?", one) for one in words):
        raise UnconvertibleError("its eval.command is not evalscope")
    names = _after(words, "--datasets")
    if len(names) != 1:
        raise UnconvertibleError(
            f"its eval.command has {len(names)} data sets, not one"
        )
    task = nearest(names[0])
    suite = Converted()
    suite.add_task(task.task)
    entry = {**task._asdict(), "min": threshold, "advisory": True}
    suite.gates.append(ConvertedGate(entry, f"{threshold:g}: TokenSpeed"))
    suite.left_out.append(
        "prompts of evalscope: the suite has lm-eval's, so its gate is advisory"
    )
    options = dict.fromkeys(
        one.partition("=")[0] for one in words if one.startswith("--")
    )
    suite.left_out += [
        f"{one} {' '.join(_after(words, one))}"
        for one in options
        if one not in _READ_OPTIONS
    ]
    run: dict[str, Any] = {"apply_chat_template": True}
    if limit := _after(words, "--limit"):
        run["limit"] = limit[0]
    suite.commands.append(command(_tokenspeed_server(values, suite), run, folder))
    return suite


def _tokenspeed_server(values: Values, suite: Converted) -> str:
    server = values.get("server") or {}
    text = " ".join(str(server.get("command") or "").split())
    ready, variables = server.get("ready") or {}, dict(values.get("env") or {})
    runner = values.get("runner")
    own_variables = runner.get("env") if isinstance(runner, dict) else None
    for label, own in (own_variables or {}).items():
        suite.left_out.append(f"runner.env of {label}: {json.dumps(own)}")
    if not text:
        raise UnconvertibleError("it has no server.command")
    spec, changed = re.subn(r"(--port[ =])\d+", r"\1{port}", text)
    if not changed:
        suite.left_out.append("server.command has no --port: add --port {port}")
    if re.search(r"[$;|&`]", text):
        spec = f"bash -c {shlex.quote(spec)}"
    names = [f"{key}={shlex.quote(str(value))}" for key, value in variables.items()]
    spec = " ".join([*names, spec])
    if path := urlsplit(str(ready.get("url") or "")).path:
        spec += f",ready={path}"
    if "timeout" in ready:
        spec += f",startup_timeout={ready['timeout']}"
    return spec


def _words(where: str, text: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UnconvertibleError(f"its {where} cannot be split: {error}") from None


def _after(words: Sequence[str], option: str) -> list[str]:
    """The values of an option, up to the next one."""
    found: list[str] = []
    for start, word in enumerate(words):
        if word.startswith(f"{option}="):
            found.append(word.partition("=")[2])
        elif word == option:
            found += takewhile(lambda one: not one.startswith("--"), words[start + 1 :])
    return found
