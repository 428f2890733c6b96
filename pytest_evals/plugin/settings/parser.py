"""Options and ini keys in pytest's parser, and the values of the ini file.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_evals.errors import did_you_mean
from pytest_evals.plugin.settings.option_table import GROUPS, Option
from pytest_evals.plugin.settings.values import STATUSES

_MODEL = "--evals-model"
LIMIT_S = 0.5  # seconds after which no further folder is searched for task files


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


def expand_model_alias(parser: pytest.Parser, args: list[str]) -> None:
    """Replace ``--model`` in the arguments by ``--evals-model``, unless a conftest or
    plugin has an option of that name.

    The alias is not an option: one would conflict with the ``--model`` of a conftest
    that pytest finds later, during collection.
    """
    known = _known(parser)
    if not known or "--model" in known:
        return
    if any("--model" in text for text in map(_file_text, args)):
        args[:] = [one for arg in args for one in _from_file(arg)]
    end = args.index("--") if "--" in args else len(args)
    for i, arg in enumerate(args[:end]):
        name, equals, value = arg.partition("=")
        if name == "--model":
            args[i] = f"--evals-model{equals}{value}"


def by_source(args: Sequence[str], typed: Sequence[str]) -> list[list[str]]:
    """Split arguments by their source: ``addopts`` of the ini file,
    ``PYTEST_ADDOPTS``, command line. ``typed``: the arguments of the latter."""
    n_variable = len(shlex.split(os.environ.get("PYTEST_ADDOPTS", "")))
    end = max(0, len(args) - len(typed))
    start = max(0, end - n_variable)
    return [[*args[:start]], [*args[start:end]], [*args[end:]]]


def with_last_models(sources: Sequence[list[str]]) -> list[str]:
    """Join the arguments of several sources; the models of the last source that has
    any replace those of the others, so that only repetition in one place adds one."""
    kept: list[str] = []
    has_models = False
    for args in reversed(sources):
        kept[:0] = _without_models(args) if has_models else args
        has_models = has_models or _MODEL in (one.partition("=")[0] for one in args)
    return kept


def _without_models(args: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skips = False
    for one in args:
        if not skips and one.partition("=")[0] != _MODEL:
            kept.append(one)
        skips = not skips and one == _MODEL
    return kept


def _from_file(arg: str) -> list[str]:
    """Return the arguments in the file of ``@FILE``, one a line as in argparse; any
    other argument as it is."""
    text = _file_text(arg)
    return [a for line in text.splitlines() for a in _from_file(line)] or [arg]


def _file_text(arg: str) -> str:
    """Return the text of the file of ``@FILE``; empty if it cannot be read, which
    argparse reports."""
    try:
        return Path(arg[1:]).read_text("utf-8") if arg.startswith("@") else ""
    except (OSError, UnicodeError):
        return ""


_MEANT = {
    "--evals-against": "--evals-compare=NAME",
    "--evals-baseline": "--evals-compare=NAME",
    "--evals-compare-baseline": "--evals-compare=NAME",
    "--evals-compare-to": "--evals-compare=NAME",
    "--evals-debug": "--evals-limit=2 -v",
    "--evals-fail-under": "--evals-gate='METRIC >= 0.9'",
    "--evals-judge-model": "--evals-judge=KIND:NAME",
    "--evals-max-cost": "--evals-spend-cap=COST",
    "--evals-max-samples": "--evals-limit=N",
    "--evals-min": "--evals-gate='METRIC >= 0.9'",
    "--evals-output": "--evals-json=FILE",
    "--evals-output-path": "--evals-dir=FOLDER",
    "--evals-report": "--evals-html=FILE",
    "--evals-threshold": "--evals-gate='METRIC >= 0.9'",
}
"""Options that others have, or that users expect → ours. A similar spelling would name
one that does something else, such as saving a baseline."""
_LM_EVAL = {
    "--apply_chat_template": "--evals-apply-chat-template",
    "--batch_size": "nothing: batches fit the memory (--evals-batch-tokens=N)",
    "--confirm_run_unsafe_code": "--evals-allow-unsafe-code",
    "--device": "--evals-device=NAME",
    "--fewshot_as_multiturn": "nothing: examples are turns of a chat",
    "--gen_kwargs": "--evals-gen-kwargs=ARGS",
    "--include_path": "--evals-include-path=FOLDER",
    "--limit": "--evals-limit=N",
    "--log_samples": "nothing: samples are always written",
    "--model_args": "--model=KIND:NAME,ARGS, such as --model=hf:gpt2,dtype=float16",
    "--num_fewshot": "--evals-num-fewshot=N",
    "--output_path": "--evals-dir=FOLDER",
    "--system_instruction": "--evals-system-instruction=TEXT",
    "--tasks": "--evals-tasks=NAMES",
    "--use_cache": "nothing: responses are always stored",
}
"""Options of lm-eval's command, which nobody else has with --model → ours."""


def refuse_unknown(parser: pytest.Parser, args: list[str]) -> None:
    """Refuse unknown options with our prefix, and lm-eval's next to a model."""
    known = _known(parser)
    has_model = _MODEL in (one.partition("=")[0] for one in args)
    for one in args if known else ():
        flag = one.partition("=")[0]
        if one == "--":
            return
        if flag in known:
            continue
        if has_model and flag in _LM_EVAL:
            raise pytest.UsageError(f"unknown option {flag}; write {_LM_EVAL[flag]}")
        if flag in _MEANT:
            hint = f"; did you mean {_MEANT[flag]}?"
            raise pytest.UsageError(f"unknown option {flag}{hint}")
        if flag.startswith("--evals-"):
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


# pytest supports argcomplete, which calls the attribute ``completer`` of an argparse
# action. Standard library only: this is imported in every pytest run.
class CompletionAction(argparse.Action):
    """Stores a value, as ``action="store"`` does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Store the value."""
        setattr(namespace, self.dest, values)

    def completer(
        self, prefix: str, parsed_args: argparse.Namespace, **_: object
    ) -> list[str]:
        """Return the values that start with a prefix; in a list separated by commas,
        those of the last entry."""
        before, comma, last = prefix.rpartition(",")
        values = self._values(parsed_args)
        return sorted({before + comma + one for one in values if one.startswith(last)})

    def _values(self, given: argparse.Namespace) -> Iterable[str]:
        if self.dest == "evals_tasks":
            return _task_names(given)
        if self.dest == "evals_compare":
            folder = Path(given.evals_dir or ".evals", "baselines")
            return [path.name for path in folder.glob("*") if path.is_dir()]
        if self.dest == "evals_only":
            return STATUSES
        return str(self.metavar).split("|")


def completing(option: Option) -> dict[str, Any]:
    """Return the arguments of ``addoption`` that complete the values of an option;
    nothing unless argcomplete calls pytest."""
    if "_ARGCOMPLETE" not in os.environ or option.kind != "text" or option.alone:
        return {}
    if option.metavar.islower() or option.name in ("tasks", "compare"):
        return {"action": CompletionAction}
    return {}


def _task_names(given: argparse.Namespace) -> Iterable[str]:
    """Names of lm-eval's tasks, groups and tags below the folders of the command line
    and the include paths."""
    from pytest_evals.dialects.task_index.index import Scanner

    typed = [str(arg).partition("::")[0] for arg in given.file_or_dir or ()]
    folders = [path for path in typed if os.path.isdir(path)] or ["."]
    folders += [p for text in given.evals_include_path or () for p in text.split(",")]
    cache = Path(given.evals_dir or ".evals")
    end = time.monotonic() + LIMIT_S
    scanner = Scanner(
        cache=cache.absolute() if cache.is_dir() else None,
        skips=lambda path: path.name.startswith(".") or time.monotonic() > end,
    )
    return [name for path in folders for name in scanner.index(Path(path).absolute())]


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_SEPARATORS = {"NAMES": ",", "GLOBS": " ", "K=V,…|JSON": ","}
"""Separators of options with several entries in one string."""


def ini_value(config: pytest.Config, option: Option) -> Any:
    """Return the ini value of an option: a string, a boolean or a list of strings, by
    its kind; ``None`` if it is not set.

    pytest reads strings and lists of strings from ``pytest.ini`` and
    ``[tool.pytest.ini_options]``. Since 9.0 it reads TOML types from ``[tool.pytest]``
    and ``pytest.toml``, and accepts the declared type only. Here a number, a boolean or
    a list is equivalent to the same value as a string.
    """
    value = _value(config, option)
    if value is None or (option.kind == "text" and isinstance(value, str)):
        return value
    if option.kind == "list":
        return _lines(value)
    if option.kind == "flag":
        text = _text(value).strip().lower()
        if text not in (*_TRUE, *_FALSE):
            raise _wrong(config, option, value, "write true or false")
        return text in _TRUE
    if isinstance(value, dict) and "JSON" in option.metavar:
        return json.dumps(value, default=str)
    if isinstance(value, list) and option.metavar in _SEPARATORS:
        return _SEPARATORS[option.metavar].join(map(_text, value))
    if isinstance(value, list | dict):
        raise _wrong(config, option, value, "write one value")
    return _text(value)


def _value(config: pytest.Config, option: Option) -> Any:
    """Return the value of the file if pytest (9.0) would refuse or deprecate its type;
    pytest keeps it in a private attribute."""
    found = getattr(config, "_inicfg", {}).get(option.dest)
    mode, value = getattr(found, "mode", ""), getattr(found, "value", None)
    if mode == "toml" or (mode and isinstance(value, list)):
        return value
    try:
        return config.getini(option.dest)
    except (ValueError, pytest.UsageError) as error:
        if option.dest in str(error):
            raise
        where = f"{option.dest} in {config.inipath}"
        raise pytest.UsageError(f"{where}: {error}; write true or false") from None


def _lines(value: object) -> list[str]:
    entries = value if isinstance(value, list) else _text(value).splitlines()
    return [text for entry in entries if (text := _text(entry).strip())]


def _text(value: object) -> str:
    """Return the value as on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong(
    config: pytest.Config, option: Option, value: object, fix: str
) -> pytest.UsageError:
    shown = f"{type(value).__name__} {value!r:.60}"
    return pytest.UsageError(f"{option.dest} in {config.inipath}: {shown}; {fix}")
