"""Values typed on a command line, as lm-eval 0.4.13 reads them.

``tests/parity/test_cli_values.py`` compares generated values with lm-eval itself.
"""

from __future__ import annotations

import pytest

from pytest_evals.core.cli_values import cli_value

# Measured on lm-eval 0.4.13 (`simple_parse_args_string` and `key_val_to_dict`).
MEASURED = {
    "1": 1,
    "1.5": 1.5,
    "true": True,
    "True": True,
    "FALSE": False,
    "None": None,
    "none": "none",
    "null": "null",
    '"12"': "12",
    "'a'": "a",
    "''": "",
    "x=y": "x=y",
    "1e3": 1000.0,
    "1E3": 1000.0,
    "0.1e1": 1.0,
    "1.0": 1.0,
    "1.": 1.0,
    ".5": 0.5,
    "-3": -3.0,
    "-1": -1.0,
    "-0": -0.0,
    "+5": 5.0,
    " 1": 1.0,
    "1 ": 1.0,
    "007": 7,
    "12345678901234567890": 12345678901234567890,
    "\u0661": 1,
    "\u0663.\u0665": 3.5,
    "1_000": 1000.0,
    "1__0": "1__0",
    "1e5_0": 1e50,
    "0x10": 16,
    "0b1": 1,
    "e1": "e1",
    "--1": "--1",
    "1-2": "1-2",
    "": "",
    '["x","y"]': ["x", "y"],
    "[1,2": "[1,2",
    "[none]": "[none]",
    "[]": [],
    "{}": {},
    "(1,)": (1,),
}


@pytest.mark.parametrize("text", MEASURED)
def test_values_that_were_measured_on_lm_eval(text):
    assert cli_value(text) == MEASURED[text]
    assert type(cli_value(text)) is type(MEASURED[text])


@pytest.mark.parametrize("text", ["inf", "-Infinity", "nan", "1e400", "\u00b2"])
def test_values_that_a_results_file_cannot_contain_remain_strings(text):
    """lm-eval returns floats, and fails for a superscript digit."""
    assert cli_value(text) == text
