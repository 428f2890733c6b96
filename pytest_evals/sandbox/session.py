"""The sandbox of this process, as the options of a session set it."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import ClassVar

from pytest_evals.errors import EvalsError, OptionError
from pytest_evals.sandbox.levels import LEVELS, LevelName
from pytest_evals.sandbox.runner import CodeResult, Sandbox

LEVEL_FORM = "auto, process, bwrap, docker, docker:IMAGE or off"


class _Session:
    sandbox: ClassVar[Sandbox | None] = None


def parse_level(text: str) -> tuple[LevelName, str]:
    """Return level and image of ``docker:python:3.12``. Raises ValueError if it is not
    a level."""
    name, _, image = text.partition(":")
    if name not in LEVELS or (":" in text and not (name == "docker" and image)):
        raise ValueError(f"expected {LEVEL_FORM}")
    return name, image


def set_sandbox(level: str, *, consents: bool) -> None:
    """Set the sandbox of this process and end the previous one. Raises OptionError if
    the level does not exist."""
    end_sandbox()
    try:
        name, image = parse_level(level)
    except ValueError as error:
        raise OptionError(f"sandbox: {level!r}: {error}") from None
    _Session.sandbox = Sandbox(name, image=image, consents=consents)


def current_sandbox() -> Sandbox:
    """Return the sandbox of this process; by default ``auto``, without consent."""
    if _Session.sandbox is None:
        _Session.sandbox = Sandbox()
        atexit.register(end_sandbox)  # no session does
    return _Session.sandbox


def end_sandbox() -> None:
    """End the servers of this process."""
    sandbox, _Session.sandbox = _Session.sandbox, None
    if sandbox is not None:
        sandbox.close()


def sandbox_line() -> str:
    """Return the level at which programs ran; empty if none did."""
    sandbox = _Session.sandbox
    if sandbox is None or not (sandbox.n_programs or sandbox.is_expected):
        return ""
    if sandbox.is_boundary:
        return f"sandbox: {sandbox.level}"
    text = f"sandbox: {sandbox.level}, not a security boundary"
    return f"{text} ({sandbox.fallback})" if sandbox.fallback else text


def run_code(
    code: str,
    *,
    stdin: str = "",
    files: Mapping[str, str | bytes] | None = None,
    timeout: float = 10.0,
) -> CodeResult:
    """Run a Python program that a model wrote, in the session's sandbox.

    The program runs in an empty folder with limits on time, memory, processes, files
    and output; all that it starts has ended when this returns. Compare its output in
    your scorer: do not give expected results to the program. Raises EvalsError if the
    sandbox is not a security boundary and ``--evals-allow-unsafe-code`` is missing, or
    an argument is invalid.

    Args:
        stdin: Standard input.
        files: Files in its folder: relative path to content.
        timeout: Seconds until it is killed.
    """
    for name in files or {}:
        path = PurePosixPath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise EvalsError(f"run_code: {name!r} is not a relative path in a folder")
    if not 0 < timeout < float("inf"):
        raise EvalsError(f"run_code: timeout must be seconds above 0, not {timeout!r}")
    sandbox = current_sandbox()
    sandbox.check_consent()
    limits = sandbox.limits.within(timeout)
    return sandbox.run(code, stdin=stdin, files=files, limits=limits)
