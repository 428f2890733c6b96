"""Python in task files: when code runs, and how its errors are reported."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_evals.errors import DocumentError, Place, TaskFileError
from pytest_evals.guests.latticeflow.snippets import OvertimeError, Snippet, time_limit

HERE = Place(Path("task.yaml"), 10)
"""The line number of the first line of each snippet."""


def snippet(source: str, seconds: float = 20.0, *, name: str = "run") -> Snippet:
    return Snippet(dedent(source).lstrip("\n"), name, HERE, seconds)


def test_a_function_gets_its_arguments_and_gives_its_value() -> None:
    function = snippet(
        """
        from __future__ import annotations

        def twice(x: int) -> int:
            return 2 * x
        """,
        name="twice",
    )
    assert function(21) == 42
    assert function.place == Place(Path("task.yaml"), 12)
    assert function.parameters() == ("x",)
    assert function.parameters() == ("x",)


def test_an_async_function_is_waited_for() -> None:
    function = snippet(
        """
        import asyncio

        async def twice(x):
            one, two = await asyncio.gather(one_of(x), one_of(x))
            return one + two

        async def one_of(x):
            await asyncio.sleep(0)
            return x
        """,
        name="twice",
    )
    assert function(21) == 42


def test_nothing_runs_before_the_first_call() -> None:
    source = """
    raise RuntimeError("not yet")

    def run():
        return 1
    """
    function = snippet(source)
    for _ in range(2):  # the second time it is reported again, and not run again
        with pytest.raises(DocumentError) as caught:
            function()
        assert str(caught.value) == (
            "task.yaml:10: the snippet: RuntimeError: not yet (task.yaml:10)"
        )


def test_an_exception_of_a_function_is_reported_with_its_line() -> None:
    function = snippet(
        """
        import json

        def run(text):
            return deeper(text)

        def deeper(text):
            return json.loads(text)
        """
    )
    with pytest.raises(DocumentError) as caught:
        function("{")
    assert str(caught.value).startswith("task.yaml:12: run: JSONDecodeError: ")
    assert str(caught.value).endswith("(task.yaml:16)")


ENDLESS = """
def run():
    while True:
        try:
            while True:
                pass
        except Exception:
            pass
"""


def test_an_endless_loop_is_stopped_and_reported_with_its_line() -> None:
    """A snippet may catch all exceptions except this one."""
    function = snippet(ENDLESS, 0.1)
    with pytest.raises(DocumentError) as caught:
        function()
    text = "task.yaml:10: run: TimeoutError: not finished after 0.1 s (task.yaml:1"
    assert str(caught.value).startswith(text)


def test_an_endless_loop_is_ended_in_any_thread() -> None:
    function = snippet(ENDLESS, 0.1)
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(function).exception(timeout=60)
    assert isinstance(error, DocumentError)
    assert "not finished after 0.1 s" in str(error)


def test_an_async_function_that_never_ends_is_ended() -> None:
    source = "import asyncio\nasync def run():\n    await asyncio.sleep(60)"
    with pytest.raises(DocumentError, match=r"TimeoutError: not finished after 0.1 s"):
        snippet(source, 0.1)()


@pytest.mark.slow
def test_a_time_limit_leaves_nothing_behind() -> None:
    """Neither a timer nor a thread remains, and an outer limit stays active."""
    import signal
    import time

    with time_limit(10):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    ended = []
    before = signal.signal(signal.SIGALRM, lambda *_: ended.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with time_limit(0.1), pytest.raises(OvertimeError):
            time.sleep(10)
        time.sleep(0.3)
        assert ended == [1]
    finally:
        signal.signal(signal.SIGALRM, before)
    names = [thread.name for thread in threading.enumerate()]
    assert "evals-time-limit" not in names


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\ndef run(:\n", "task.yaml:11: invalid Python: invalid syntax"),
        (
            "def runs():\n    pass",
            "task.yaml:10: the snippet does not define run; did you mean 'runs'?\n"
            "  fix: def run(…):",
        ),
    ],
)
def test_static_errors_are_reported_when_the_file_is_read(
    source: str, message: str
) -> None:
    with pytest.raises(TaskFileError) as caught:
        Snippet(source, "run", HERE)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "source",
    ["from math import sqrt as run", "run = abs", "if True:\n    def run(x): return x"],
)
def test_a_function_may_be_bound_in_any_way(source: str) -> None:
    assert Snippet(source, "run", HERE)(1) == 1


def test_a_name_that_is_not_a_function_is_reported() -> None:
    with pytest.raises(
        DocumentError, match=r"task.yaml:10: run is not a function but 3"
    ):
        Snippet("run = 3", "run", HERE)()


def test_two_snippets_are_two_modules() -> None:
    source = "n = 0\ndef run():\n    global n\n    n += 1\n    return n"
    first, second = (Snippet(source, "run", HERE) for _ in range(2))
    assert (first(), first(), second()) == (1, 2, 1)


def test_dataclasses_of_a_snippet_find_their_module() -> None:
    source = """
    from __future__ import annotations
    from dataclasses import dataclass
    from typing import get_type_hints

    @dataclass
    class Point:
        x: int

    def run():
        return get_type_hints(Point)
    """
    assert snippet(source)() == {"x": int}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("from latticeflow.core.dtypes import Tracee", "did you mean 'Trace'?"),
        ("import latticeflow.core.dtype", "did you mean 'latticeflow.core.dtypes'?"),
        (
            "import latticeflow.core.dtypes as d; d.Mesage",
            "has no attribute 'Mesage'; did you mean 'Message'?",
        ),
    ],
)
def test_an_unknown_latticeflow_name_is_reported_with_a_similar_one(
    line: str, why: str
) -> None:
    function = snippet(f"{line}\n\ndef run():\n    pass\n")
    with pytest.raises(DocumentError, match=r"task\.yaml:10") as caught:
        function()
    assert why in str(caught.value)
