"""The options and their ini twins, as pytest's parser is told of them.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from pytest_evals.plugin.settings.option_table import TABLE


def add_options(parser: pytest.Parser) -> None:
    """Add every option of the table and its ini twin."""
    group = parser.getgroup("evals")
    for option in TABLE:
        text = option.help + (f" Default: {option.default}." if option.default else "")
        plain = text.replace("%", "%%")  # argparse fills in its help
        arguments: dict[str, Any] = {"dest": option.dest, "help": plain}
        if option.kind == "flag":
            arguments |= {"action": "store_true", "default": None}
        else:
            arguments |= {"metavar": option.metavar, "default": None}
            arguments |= {"action": "append"} if option.kind == "list" else {}
            arguments |= {"nargs": "?", "const": option.alone} if option.alone else {}
        group.addoption(option.flag, **arguments)
        if option.ini:
            kinds: dict[str, Literal["string", "bool", "linelist"]]
            kinds = {"text": "string", "flag": "bool", "list": "linelist"}
            parser.addini(option.dest, text, type=kinds[option.kind], default=None)


def offer_model_alias(parser: pytest.Parser) -> None:
    """Offer ``--model`` for ``--evals-model``, unless a conftest or plugin has it.

    It reads two private attributes of pytest's parser; where they are gone, the alias
    is silently not offered.
    """
    try:
        groups = (parser._anonymous, *parser._groups)
        taken = {name for group in groups for o in group.options for name in o.names()}
    except AttributeError:
        return
    if "--model" not in taken:
        parser.getgroup("evals").addoption(
            "--model",
            dest="evals_model",
            metavar="SPEC",
            default=None,
            help="Short for --evals-model.",
        )
