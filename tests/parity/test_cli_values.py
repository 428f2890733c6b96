"""Generated values of a command line, compared with lm-eval itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evals.core.cli_values import cli_value

pytestmark = pytest.mark.nightly


@given(
    st.text(alphabet="0123456789.-+e_[]'\", Nonetrufals", max_size=8)
    | st.integers().map(str)
    | st.floats().map(str)
)
def test_any_text_is_parsed_as_lm_eval_parses_it(text):
    from lm_eval._cli.utils import handle_cli_value_string

    theirs = handle_cli_value_string(text)
    if isinstance(theirs, float) and not math.isfinite(theirs):
        assert cli_value(text) == text
    else:
        assert cli_value(text) == theirs
        assert type(cli_value(text)) is type(theirs)
