"""Conversion of snippets' return values to serializable values."""

from __future__ import annotations

import math
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction

import numpy as np
import pytest

from pytest_evals.guests.latticeflow.prompts.items import Message
from pytest_evals.guests.latticeflow.prompts.output import SampleScore
from pytest_evals.guests.latticeflow.snippets import to_json


class Colour(StrEnum):
    RED = "red"


class Word(str, Enum):  # noqa: UP042 - which are still around
    """String enumerations as written before Python 3.11."""

    YES = "yes"


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (None, None),
        (True, True),
        ((1, [2.5, "x"]), [1, [2.5, "x"]]),
        ({1: {"a": ()}}, {"1": {"a": []}}),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]),
        (Decimal("0.25"), 0.25),
        (Fraction(1, 4), 0.25),
        (Colour.RED, "red"),
        (Word.YES, "yes"),
        (math.inf, math.inf),
        (Message(role="user", content="x")["role"], "user"),
        (SampleScore({"a": 1}), {"values": {"a": 1}, "metadata": {}}),
    ],
)
def test_values_that_json_can_represent_are_unchanged(
    value: object, json: object
) -> None:
    found = to_json(value)
    assert found == json and type(found) is type(json)


HOLDS_ITSELF: list[object] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [{1, 2}]}, r"\{1, 2\} of type set"),
        (b"x", "b'x' of type bytes"),
        (1j, "1j of type complex"),
        (10**400, "an integer of 1329 bits"),
        (HOLDS_ITSELF, "a value that contains itself"),
    ],
)
def test_anything_else_is_refused_in_words(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_json(value)


def test_values_that_json_lacks_are_converted_by_a_function() -> None:
    assert to_json({"a": {1}}, str) == {"a": "{1}"}
