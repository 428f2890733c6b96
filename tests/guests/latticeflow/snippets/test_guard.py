"""Hostile or broken user code: each case is one error of one document."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_evals.errors import DocumentError, Place
from pytest_evals.guests.latticeflow.snippets import Snippet

HERE = Place(Path("task.yaml"), 10)


def function(body: str):
    """A function whose body begins in line 12."""
    lines = [f"    {line}" for line in dedent(body).strip().splitlines()]
    head = ["import asyncio, os, sys, threading", "def run():"]
    return Snippet("\n".join([*head, *lines]), "run", HERE, 20.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit(0)", "SystemExit: 0"),
        ("os._exit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise asyncio.CancelledError", "CancelledError"),
        ("class Own(BaseException): pass\nraise Own('x')", "Own: x"),
        ("import pytest; pytest.skip('me')", "Skipped: me"),
        ("raise BaseExceptionGroup('g', [SystemExit()])", "BaseExceptionGroup: g"),
        ("return run()", "RecursionError: "),
        ("return 'x' * 10**15", "MemoryError"),
    ],
)
def test_it_ends_nothing_but_itself(body: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        function(body)()
    assert str(caught.value).startswith(f"task.yaml:11: run: {message}")
    assert str(caught.value).split("(task.yaml:1")[1] in ("2)", "3)")


def test_ctrl_c_while_it_runs_ends_the_session() -> None:
    """It is raised between two statements, and by none of them."""
    pressed = f"os.kill({os.getpid()}, {int(signal.SIGINT)})\nfor _ in range(10**7): 1"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            function(pressed)()
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_of_it_a_process_ends_as_it_likes() -> None:
    """Both a child of a snippet and later callers are guarded."""
    body = """
    child = os.fork()
    if not child:
        os._exit(7)
    return os.waitpid(child, 0)[1]
    """
    assert os.waitstatus_to_exitcode(function(body)()) == 7
    child = os.fork()
    if not child:
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8


def test_an_exception_whose_message_fails_is_still_reported() -> None:
    body = """
    class Mute(Exception):
        def __str__(self): raise ValueError
    raise Mute
    """
    message = (
        r"run: Mute: \(its message cannot be created: ValueError\) \(task.yaml:14\)"
    )
    with pytest.raises(DocumentError, match=message):
        function(body)()


def test_a_long_exception_message_is_truncated() -> None:
    with pytest.raises(DocumentError) as caught:
        function("raise ValueError('x' * 10**6)")()
    assert len(str(caught.value)) < 5000
