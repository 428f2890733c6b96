"""A forked process that runs one program, or its tests, and never returns."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from .peers import outcome, serve
from .processes import apply_limits, die_with_parent, drop_root, hide_memory
from .values import encode, frame, read_frame, write_all

_FILE = "program.py"


class ProgramSetup(NamedTuple):
    """Descriptors, folder, user and limits of a process. ``peer``: the socket to the
    other process, or -1."""

    report: int
    peer: int
    output: tuple[int, int]
    folder: str
    uid: int
    n_threads: int
    parent: int
    limits: Mapping[str, Any]


def run(mode: str, setup: ProgramSetup) -> NoReturn:
    """Read the code from descriptor 0 and run it. The server never reads it: the next
    program is forked from the server's memory."""
    code = 1
    job: Mapping[str, Any] = {}
    try:
        os.setsid()
        die_with_parent(setup.parent)
        job = read_frame(0)
        write_all(setup.report, frame({"read": True}))
        code = _MODES[mode](job, _enter(mode, job, setup))
    except SystemExit as error:
        code = _exit_code(error.code)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does
        _print_traceback(error, job.get("code", ""))
    finally:
        code = _finish(code)
        os._exit(code)


def _enter(mode: str, job: Mapping[str, Any], setup: ProgramSetup) -> ProgramSetup:
    """Leave the server's descriptors, environment and rights; return the setup with
    the new descriptors."""
    os.chdir(setup.folder)
    given = os.open(os.devnull, os.O_RDONLY)
    if job.get("stdin"):
        given = _unnamed()
        write_all(given, job["stdin"].encode("utf-8", "surrogatepass"))
        os.lseek(given, 0, os.SEEK_SET)
    for name, data in job.get("files", {}).items():
        _write(name, bytes.fromhex(data))
    if mode != "tests" and setup.uid and setup.limits["enforced"]:
        _give_away(setup.folder, setup.uid)
    setup = _keep_descriptors(given, setup)
    if setup.limits["enforced"]:
        for name in ("HOME", "TMPDIR"):
            os.environ[name] = setup.folder
        apply_limits(setup.limits, setup.n_threads)
        drop_root(setup.uid)
    if mode == "tests":
        hide_memory()
    _open_streams()
    return setup


def _keep_descriptors(given: int, setup: ProgramSetup) -> ProgramSetup:
    """Close all descriptors but standard ones, the report and the peer."""
    os.dup2(given, 0)
    os.dup2(setup.output[0], 1)
    os.dup2(setup.output[1], 2)
    new = {-1: -1}
    for at, descriptor in enumerate(sorted({setup.report, setup.peer} - {-1}), 3):
        os.dup2(descriptor, at)
        os.set_inheritable(at, False)
        new[descriptor] = at
    os.closerange(2 + len(new), 65536)
    return setup._replace(report=new[setup.report], peer=new[setup.peer])


def _open_streams() -> None:
    """Make this process look like a new interpreter."""
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(open(number, kind, closefd=False), encoding="utf-8", errors=errors, line_buffering=number == 2)  # noqa: E501, SIM115
        for number, kind, errors in ((0, "rb", "strict"), (1, "wb", "surrogateescape"), (2, "wb", "backslashreplace"))  # noqa: E501
    )  # fmt: skip
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    sys.argv = [_FILE]
    if "random" in sys.modules:
        sys.modules["random"].seed()


def _unnamed() -> int:
    """Return a file of the program's folder that no name leads to."""
    descriptor = os.open(".stdin", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.unlink(".stdin")
    return descriptor


def _write(name: str, data: bytes) -> None:
    folder = os.path.dirname(name)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(name, "wb") as file:
        file.write(data)
    os.chmod(name, 0o644)


def _give_away(folder: str, uid: int) -> None:
    """Make an unprivileged user the owner of the program's folder."""
    os.chown(folder, uid, uid)
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(root, name), uid, uid)


def _compiled(source: str, file: str = "<string>") -> Any:
    """Compile; by default under the name that errors have in ``code_eval``."""
    return compile(source, file, "exec", dont_inherit=True)


def _report(setup: ProgramSetup, message: Any) -> None:
    write_all(setup.report, json.dumps(message).encode())


def _names() -> dict[str, Any]:
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    module.__dict__["__builtins__"] = __builtins__
    return module.__dict__


def _script(job: Mapping[str, Any], setup: ProgramSetup) -> int:
    os.close(setup.report)
    sys.path.insert(0, setup.folder)
    exec(_compiled(job["code"], _FILE), _names())
    return 0


def _call(job: Mapping[str, Any], setup: ProgramSetup) -> int:
    names = _names()
    exec(_compiled(job["code"]), names)
    target = names["Solution"]() if "Solution" in names else None
    name = job["call"]
    function = names[name] if target is None else getattr(target, name)
    _report(setup, {"value": encode(function(*job["arguments"]))})
    return 0


def _serve(job: Mapping[str, Any], setup: ProgramSetup) -> NoReturn:
    os.close(setup.report)

    def program() -> dict[str, Any]:
        names = _names()
        exec(_compiled(job["code"]), names)
        return names

    serve(setup.peer, program)


def _tests(job: Mapping[str, Any], setup: ProgramSetup) -> int:
    _report(setup, {"outcome": outcome(setup.peer, job["tests"])})
    os._exit(0)


def _together(job: Mapping[str, Any], setup: ProgramSetup) -> int:
    """Run program and tests in one interpreter, as the tests need."""
    text = "passed"
    try:
        exec(_compiled(job["code"] + "\n" + job["tests"]), _names())
    except BaseException as error:  # noqa: BLE001 - every exception fails the tests
        text = f"failed: {error}"
    _report(setup, {"outcome": text, "secret": job["secret"]})
    os._exit(0)


_MODES = {
    "script": _script,
    "call": _call,
    "serve": _serve,
    "tests": _tests,
    "together": _together,
}


def _print_traceback(error: BaseException, source: str) -> None:
    import linecache
    import traceback

    lines = source.splitlines(keepends=True)
    linecache.cache[_FILE] = (len(source), None, lines, _FILE)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != _FILE:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _finish(code: int) -> int:
    """End as an interpreter does: threads, ``atexit``, buffers."""
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit = importlib.import_module("atexit")
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - the exit code is decided
        return code or 120
    return code
