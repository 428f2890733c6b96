"""Options that hold several values."""

from __future__ import annotations

from pytest_evals.plugin.settings.values import pairs


def test_key_value_pairs_are_parsed_like_lm_evals_command_line():
    """Both lines were measured on lm-eval 0.4.13."""
    line = 'a=1,b=1.5,c=true,d=None,e="12",f=x=y,g=1e3,h=-3,j='
    assert pairs(line) == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": "12",
        "f": "x=y",
        "g": 1000.0,
        "h": -3,
        "j": "",
    }
    assert pairs('until=["x","y"],b=-1') == {"until": ["x", "y"], "b": -1.0}
