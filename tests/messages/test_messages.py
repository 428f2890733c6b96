"""Each user error gets a message with its place, the value and the remedy."""

from __future__ import annotations

import pytest

from tests.messages import cases


@pytest.mark.parametrize("case", cases.load(), ids=lambda case: case.mistake)
def test_a_mistake_is_explained_without_a_traceback(pytester, monkeypatch, case):
    pytester.makeini("[pytest]\n")
    for name, value in case.env.items():
        monkeypatch.setenv(name, value)
    for name in case.unset:
        monkeypatch.delenv(name, raising=False)
    with cases.prepared(case, pytester.path) as arguments:
        result = pytester.runpytest(*arguments)
    output = f"{result.stdout}\n{result.stderr}"
    assert cases.missing(case, output) == []
    assert "Traceback (most recent call last)" not in output


def test_mistakes_are_listed_once():
    names = [case.mistake for case in cases.load()]
    assert len(set(names)) == len(names)
