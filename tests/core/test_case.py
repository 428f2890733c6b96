"""Cases of evals."""

from typing import Any

import pytest

from pytest_evals.core.case import case
from pytest_evals.core.request import Message
from pytest_evals.errors import DocumentError


def test_messages_are_kept_in_one_form():
    written = [{"role": "system", "content": "Add."}, Message("user", "2 + 2")]
    assert case(written).prompt == (
        Message("system", "Add."),
        Message("user", "2 + 2"),
    )


def test_ids_are_text():
    assert [case("q", id=given).id for given in ("a", 5, None)] == ["a", "5", ""]


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        [],
        None,
        7,
        b"2 + 2",
        print,
        {"role": "user", "content": "2 + 2"},
        ["2 + 2"],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "User", "content": "2 + 2"}],
        [{"role": "user", "content": "2 + 2", "name": "x"}],
        [("user", "2 + 2")],
        [Message("user", 4)],  # type: ignore[arg-type]
    ],
)
def test_other_prompts_are_refused(prompt: Any):
    with pytest.raises(DocumentError):
        case(prompt)
