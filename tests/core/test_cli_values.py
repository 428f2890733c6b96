"""Values typed on a command line, as lm-eval 0.4.13 reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evals.core.cli_values import cli_value

# Measured on lm-eval 0.4.13 (`simple_parse_args_string` and `key_val_to_dict`).
MEASURED = {
    "1": 1,
    "1.5": 1.5,
    "true": True,
    "None": None,
    '"12"': "12",
    "x=y": "x=y",
    "1e3": 1000.0,
    "-3": -3,
    "": "",
    '["x","y"]': ["x", "y"],
    "-1": -1.0,
}


@pytest.mark.parametrize("text", MEASURED)
def test_values_that_were_measured_on_lm_eval(text):
    assert cli_value(text) == MEASURED[text]
    assert isinstance(cli_value(text), bool) is isinstance(MEASURED[text], bool)


@settings(deadline=None)  # the first call imports lm-eval
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
