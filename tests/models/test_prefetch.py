"""A prefetched stream yields the same as without prefetching."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from pytest_evals.models.prefetch import Prefetch


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "evals-model"]


def test_items_come_in_order_and_once() -> None:
    assert list(Prefetch(iter(range(1000)))) == list(range(1000))
    assert not threads()


def test_items_are_created_without_a_reader() -> None:
    made: list[int] = []

    def stream() -> Iterator[int]:
        for i in range(5):
            made.append(i)
            yield i

    ahead = Prefetch(stream())
    deadline = time.monotonic() + 60
    while len(made) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert made == [0, 1, 2, 3, 4]
    assert next(ahead) == 0


def test_an_error_comes_after_the_items_before_it_and_once() -> None:
    def stream() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    ahead = Prefetch(stream())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)
    assert list(ahead) == []


def test_closing_waits_for_the_item_under_way_and_makes_no_other() -> None:
    made: list[int] = []
    begun = threading.Event()

    def stream() -> Iterator[int]:
        for i in range(100):
            begun.set()
            time.sleep(0.05)
            made.append(i)
            yield i

    ahead = Prefetch(stream())
    begun.wait(60)
    ahead.close()
    n_made = len(made)
    assert n_made < 100
    assert not threads()
    assert list(ahead) == made


def test_a_forgotten_stream_ends() -> None:
    def stream() -> Iterator[int]:
        while True:
            time.sleep(0.01)
            yield 0

    ahead = Prefetch(stream())
    assert next(ahead) == 0
    del ahead
    gc.collect()
    assert not threads()
