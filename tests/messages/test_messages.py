"""Each user error gets a message with its place, the value and the remedy."""

from __future__ import annotations

import re

import pytest

from tests.messages import cases

REMEDY = re.compile(
    "did you mean|fix:|; (write|set|give|known|the task has|quote)|Create it:|"
    "needed|init writes|is not sent|are listed in|remove the comma|close the object"
)
"""What a message with the highest rating offers: a near name, or the next step."""


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
    if case.rating == 3:
        assert REMEDY.search(output)
    assert "Traceback (most recent call last)" not in output


def test_mistakes_are_listed_once():
    names = [case.mistake for case in cases.load()]
    assert len(set(names)) == len(names)


def test_ratings_of_first_mistakes_have_a_mean_of_at_least_2_85():
    ratings = [case.rating for case in cases.load() if case.rating is not None]
    assert len(ratings) >= 60
    assert min(ratings) >= 2
    assert sum(ratings) / len(ratings) >= 2.85
