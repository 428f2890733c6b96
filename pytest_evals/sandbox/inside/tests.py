"""Tests of a program, run as Python code in a process that never runs the program."""

from __future__ import annotations

import builtins
import importlib
from typing import TYPE_CHECKING, Any

from .peers import Peer, ProgramEnded

if TYPE_CHECKING:
    import ast

ENDED = "failed: the program ended before its tests"


def outcome(descriptor: int, source: str) -> str:
    """Run tests against the program at the other end of a socket.

    Returns:
        ``passed``, ``failed: REASON``, or ``cannot cross: REASON`` if the tests need
        the program in their own process.
    """
    peer = Peer(descriptor, "tests")
    try:
        first = peer.receive()
        if "ready" not in first:
            return f"failed: {first.get('failed')}"
        verdict = _run(peer, source)
    except ProgramEnded:
        return ENDED
    if peer.has_ended:
        return ENDED
    return f"cannot cross: {peer.uncrossed}" if peer.uncrossed else verdict


def _run(peer: Peer, source: str) -> str:
    import ast

    try:
        tree = ast.parse(source)
        names: dict[str, Any] = {"__name__": "__main__"}
        imports = [
            one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)
        ]
        if imports:
            text = "\n".join(map(ast.unparse, imports))
            peer.send({"op": "imports", "source": text})
        for name in _free_names(tree):
            _fetch(peer, name, names)
        exec(compile(tree, "<string>", "exec"), names)
    except ProgramEnded:
        raise
    except BaseException as error:  # noqa: BLE001 - every exception fails the tests
        return f"failed: {error}"
    return "passed"


def _free_names(tree: ast.AST) -> list[str]:
    """Return names that may be the program's. Built-in functions never are: a program
    that redefines ``abs`` would decide a comparison."""
    import ast

    found = {one.id: None for one in ast.walk(tree) if isinstance(one, ast.Name)}
    return [name for name in found if not hasattr(builtins, name)]


def _fetch(peer: Peer, name: str, names: dict[str, Any]) -> None:
    peer.send({"op": "name", "name": name})
    reply = peer.receive()
    if "module" in reply:
        names[name] = importlib.import_module(str(reply["module"]))
    elif "value" in reply:
        names[name] = peer.decoded(reply["value"])
