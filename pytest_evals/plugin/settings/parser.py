"""Add the options and their ini keys to pytest's parser.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from pytest_evals.errors import did_you_mean
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

    In a version of pytest whose options are unknown there is no alias.
    """
    taken = _known(parser)
    if taken and "--model" not in taken:
        parser.getgroup("evals: model").addoption(
            "--model",
            dest="evals_model",
            metavar="SPEC",
            default=None,
            help="Short for --evals-model.",
        )


def refuse_unknown(parser: pytest.Parser, args: list[str]) -> None:
    """Refuse options with our prefix that do not exist.

    Raises:
        pytest.UsageError: With a similar option.
    """
    known = _known(parser)
    for one in args if known else ():
        flag = one.partition("=")[0]
        if one == "--":
            return
        if flag.startswith("--evals-") and flag not in known:
            hint = did_you_mean(flag, sorted(known)) or "; see pytest --help"
            raise pytest.UsageError(f"unknown option {flag}{hint}")


def _known(parser: pytest.Parser) -> set[str]:
    """Return all options; empty in a version of pytest without these two private
    attributes of its parser."""
    try:
        groups = (parser._anonymous, *parser._groups)
        return {name for group in groups for o in group.options for name in o.names()}
    except AttributeError:
        return set()
