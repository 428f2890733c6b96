"""Tests marked with ``largest_file(n)`` cannot write files larger than n bytes."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest


def pytest_configure(config: pytest.Config) -> None:
    text = "largest_file(n): no file may grow beyond n bytes; longer writes fail"
    config.addinivalue_line("markers", text)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Limit the call only: pytest's output, written after it, may be a file, too."""
    marker = item.get_closest_marker("largest_file")
    if marker is None:
        return (yield)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (marker.args[0], hard))
    try:
        return (yield)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
