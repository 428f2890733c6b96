"""One sandbox a level for all tests of this folder."""

from functools import cache

import pytest

from pytest_evals.sandbox.connection import SandboxError
from pytest_evals.sandbox.runner import Sandbox


@cache
def opened(level):
    sandbox = Sandbox(level, consents=True)
    try:
        assert sandbox.level == level
    except SandboxError as error:
        return str(error)
    return sandbox


@pytest.fixture
def sandbox_at():
    """A sandbox of a level; the test is skipped where the level does not work."""

    def sandbox(level):
        found = opened(level)
        if isinstance(found, str):
            pytest.skip(found)
        return found

    return sandbox


@pytest.fixture(params=["process", "bwrap"])
def sandbox(request, sandbox_at):
    return sandbox_at(request.param)


@pytest.fixture
def confined(sandbox_at):
    return sandbox_at("bwrap")


@pytest.fixture(scope="session", autouse=True)
def _ended():
    yield
    for level in ("process", "bwrap"):
        found = opened(level)
        if isinstance(found, Sandbox):
            found.close()
    opened.cache_clear()
