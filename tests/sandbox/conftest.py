"""One sandbox a level for all tests of this folder."""

from contextlib import ExitStack
from functools import cache

import pytest

from pytest_evals.sandbox.levels import SandboxError
from pytest_evals.sandbox.runner import Sandbox


@pytest.fixture(scope="session")
def sandbox_at():
    """A sandbox of a level; the test is skipped where the level does not work."""

    @cache
    def opened(level):
        sandbox = Sandbox(level, consents=True)
        ends.callback(sandbox.close)
        try:
            assert sandbox.level == level
        except SandboxError as error:
            return str(error)
        return sandbox

    def sandbox(level):
        found = opened(level)
        if isinstance(found, str):
            pytest.skip(found)
        return found

    with ExitStack() as ends:
        yield sandbox


@pytest.fixture(params=["process", "bwrap"])
def sandbox(request, sandbox_at):
    return sandbox_at(request.param)
