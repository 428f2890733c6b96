"""Add the options and their ini keys to pytest's parser.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from pytest_evals.plugin.settings.completion import completing
from pytest_evals.plugin.settings.option_table import GROUPS, Option


def add_options(parser: pytest.Parser) -> None:
    """Add every option of the table, and its ini key."""
    for name, options in GROUPS.items():
        group = parser.getgroup(name)
        for option in options:
            text = f"{option.help} Default: {option.default}."
            text = text if option.default else option.help
            plain = text.replace("%", "%%")  # argparse formats its help
            group.addoption(option.flag, help=plain, **_arguments(option))
            if option.ini:
                parser.addini(option.dest, text, type=_INI[option.kind], default=None)


def _arguments(option: Option) -> dict[str, Any]:
    arguments: dict[str, Any] = {"dest": option.dest, "default": None}
    if option.kind == "flag":
        return arguments | {"action": "store_true"}
    arguments["metavar"] = option.metavar
    if option.kind == "list":
        arguments["action"] = "append"
    if option.alone:
        arguments |= {"nargs": "?", "const": option.alone}
    return arguments | completing(option)


_INI: dict[str, Literal["string", "bool", "linelist"]]
_INI = {"text": "string", "flag": "bool", "list": "linelist"}


def offer_model_alias(parser: pytest.Parser) -> None:
    """Offer ``--model`` for ``--evals-model``, unless a conftest or plugin has it.

    It reads two private attributes of pytest's parser. In a version of pytest without
    them there is no alias.
    """
    try:
        groups = (parser._anonymous, *parser._groups)
        taken = {name for group in groups for o in group.options for name in o.names()}
    except AttributeError:
        return
    if "--model" not in taken:
        parser.getgroup("evals: model").addoption(
            "--model",
            dest="evals_model",
            metavar="SPEC",
            default=None,
            help="Short for --evals-model.",
        )
