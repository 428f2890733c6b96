"""The options: declared once, in one table, from which the command line, the ini file
and the docs are made.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

from pytest_evals.plugin.values import documents, mapping, pairs, share, shots

if TYPE_CHECKING:
    from pytest_evals.core.gate import Gate

__all__ = [
    "OPTIONS",
    "STARTED",
    "TABLE",
    "Option",
    "Options",
    "add_options",
    "offer_model_alias",
    "suite_root",
]


class Option(NamedTuple):
    """One option.

    ``kind`` is what is given: ``text``, ``flag`` (no value) or ``list`` (may be given
    several times). An option without ini twin makes sense for one run only.
    """

    name: str
    metavar: str
    help: str
    kind: Literal["text", "flag", "list"] = "text"
    ini: bool = True
    default: str = ""

    @property
    def flag(self) -> str:
        """As typed on the command line."""
        return f"--evals-{self.name}"

    @property
    def dest(self) -> str:
        """Name of the value, and of the ini twin."""
        return "evals_" + self.name.replace("-", "_")


TABLE = (
    Option(
        "model",
        "SPEC",
        "The model: hf:PATH_OR_ID[,dtype=…,device=…,revision=…] or scripted:…",
    ),
    Option(
        "tasks",
        "NAMES",
        "Run only these tasks: names, groups, tags or globs, separated by commas.",
    ),
    Option(
        "include-path",
        "DIR",
        "A further folder of task files, for names in groups and in --evals-tasks. May "
        "be repeated, or list several with commas; a later one overrides an earlier "
        "one.",
        kind="list",
    ),
    Option(
        "limit",
        "N|P%",
        "Only the first N documents of each task, or the first P percent.",
    ),
    Option(
        "sample",
        "N|P%",
        "Only N documents of each task, drawn by --evals-seed; a smaller sample is "
        "part of a larger one.",
    ),
    Option(
        "num-fewshot",
        "N",
        "Shots in each prompt, except in tasks that say num_fewshot: 0.",
    ),
    Option("seed", "N", "Seed of the draw of shots and of samples.", default="1234"),
    Option(
        "apply-chat-template",
        "",
        "Prompts are chats, rendered with the model's own template.",
        kind="flag",
    ),
    Option(
        "fewshot-as-one-turn",
        "",
        "With a chat template: all shots in one user message instead of a turn each.",
        kind="flag",
    ),
    Option("system-instruction", "TEXT", "Text in front of every prompt."),
    Option(
        "gen-kwargs",
        "K=V,…",
        "Generation arguments that override those of the tasks: "
        "temperature=0.7,max_gen_toks=64.",
    ),
    Option(
        "metadata",
        "K=V,…|JSON",
        "Entries of every task's metadata, which functions that make a dataset get.",
    ),
    Option("device", "NAME", "Device of an hf model: cpu, cuda, cuda:1, …"),
    Option(
        "batch-tokens",
        "N",
        "Tokens of a batch of an hf model, instead of its own size.",
    ),
    Option(
        "dir",
        "DIR",
        "Where results are kept, relative to the rootdir.",
        default=".evals",
    ),
    Option("json", "PATH", "Also write results.json to this file.", ini=False),
    Option(
        "gate",
        "EXPR",
        "One more gate: '[TASK/]METRIC[,FILTER] >= NUMBER'. May be repeated.",
        kind="list",
    ),
    Option(
        "validate",
        "",
        "Check task files, their data, prompts, scoring and gates; ask no model.",
        kind="flag",
        ini=False,
    ),
    Option(
        "write-out",
        "N",
        "Show the prompts of the first N documents of each task, cut into tokens if "
        "there is a model, and go on.",
        ini=False,
    ),
    Option("strict", "", "A wrong answer fails its document.", kind="flag"),
    Option(
        "allow-unsafe-code",
        "",
        "Run tasks that say unsafe_code: true, which execute code that the model "
        "writes, on this machine and with your rights.",
        kind="flag",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options of a session, read and checked once."""

    model: str
    tasks: tuple[str, ...]
    include_path: tuple[Path, ...]
    limit: float | None
    sample: float | None
    num_fewshot: int | None
    seed: int
    apply_chat_template: bool
    fewshot_as_multiturn: bool
    system_instruction: str
    gen_kwargs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    device: str
    batch_tokens: str
    dir: Path
    json: Path | None
    gates: tuple[Gate, ...]
    strict: bool
    allow_unsafe_code: bool
    validate: bool
    write_out: int

    @classmethod
    def from_config(cls, config: pytest.Config) -> Options:
        """Read the options.

        Raises:
            pytest.UsageError: A value means nothing.
        """
        raw = {option.name: _raw(config, option) for option in TABLE}
        if raw["limit"] and raw["sample"]:
            raise pytest.UsageError(
                "--evals-limit and --evals-sample both choose documents; give one"
            )
        base = config.invocation_params.dir
        include = _folders(config, raw["include-path"])
        return cls(
            model=raw["model"],
            tasks=tuple(raw["tasks"].replace(",", " ").split()),
            include_path=include,
            limit=_checked("limit", raw, share),
            sample=_checked("sample", raw, share),
            num_fewshot=_checked("num-fewshot", raw, shots),
            seed=_checked("seed", raw, int),
            apply_chat_template=raw["apply-chat-template"],
            fewshot_as_multiturn=not raw["fewshot-as-one-turn"],
            system_instruction=raw["system-instruction"],
            gen_kwargs=_generation(_checked("gen-kwargs", raw, pairs)),
            metadata=_checked("metadata", raw, mapping) or {},
            device=raw["device"],
            batch_tokens=raw["batch-tokens"],
            dir=suite_root(config, include) / raw["dir"],
            json=base / raw["json"] if raw["json"] else None,
            gates=tuple(map(_gate, raw["gate"])),
            strict=raw["strict"],
            allow_unsafe_code=raw["allow-unsafe-code"],
            # Without a model nothing can be asked, and the prompts are what is wanted.
            validate=raw["validate"] or bool(raw["write-out"] and not raw["model"]),
            write_out=_checked("write-out", raw, documents) or 0,
        )


OPTIONS: pytest.StashKey[Options] = pytest.StashKey()
"""Where the options hang on ``config.stash``."""

STARTED: pytest.StashKey[float] = pytest.StashKey()
"""Unix time at which pytest was configured."""


def add_options(parser: pytest.Parser) -> None:
    """Add every option of the table and its ini twin."""
    group = parser.getgroup("evals", "benchmarks of language models")
    for option in TABLE:
        text = option.help + (f" Default: {option.default}." if option.default else "")
        arguments: dict[str, Any] = {"dest": option.dest, "help": text}
        if option.kind == "flag":
            arguments |= {"action": "store_true", "default": None}
        else:
            arguments |= {"metavar": option.metavar, "default": None}
            arguments |= {"action": "append"} if option.kind == "list" else {}
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


def _raw(config: pytest.Config, option: Option) -> Any:
    """Command line before ini before default."""
    value = config.getoption(option.dest)
    if value is None and option.ini:
        value = config.getini(option.dest)
    if value is None or value == "":
        return {"flag": False, "list": []}.get(option.kind, option.default)
    return value


def suite_root(config: pytest.Config, include: Sequence[Path]) -> Path:
    """The rootdir; or the folder where pytest was started, if pytest took an include
    path for the rootdir, as it does with the value in ``--evals-include-path DIR``."""
    root, here = config.rootpath, config.invocation_params.dir
    mistaken = any(root.is_relative_to(path) for path in include)
    if mistaken and not any(here.is_relative_to(path) for path in include):
        return here
    return root


def _folders(config: pytest.Config, given: Sequence[str]) -> tuple[Path, ...]:
    """Folders as absolute paths: of the command line relative to where it was given,
    of the ini file relative to that file."""
    typed = config.getoption("evals_include_path") is not None
    ini = config.inipath.parent if config.inipath else config.rootpath
    base = config.invocation_params.dir if typed else ini
    names = [n for text in given for part in text.split(",") for n in _paths(part)]
    folders = [
        Path(os.path.normpath(base / Path(name.strip()).expanduser()))
        for name in names
        if name.strip()
    ]
    for folder in folders:
        if not folder.is_dir():
            raise pytest.UsageError(f"--evals-include-path: {folder} is no folder")
    return tuple(dict.fromkeys(folders))


def _paths(text: str) -> list[str]:
    """A list as in ``PATH``; a single folder may have the separator in its name."""
    return [text] if Path(text).is_dir() else text.split(os.pathsep)


def _checked(name: str, raw: Mapping[str, Any], read: Callable[[str], Any]) -> Any:
    if raw[name] == "":
        return None
    try:
        return read(raw[name])
    except ValueError as error:
        detail = str(error)
        if detail.startswith("invalid literal"):
            detail = "a whole number is wanted"
        raise pytest.UsageError(f"--evals-{name}={raw[name]}: {detail}") from None


def _generation(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if given is None:
        return {}
    from pytest_evals.errors import OptionError
    from pytest_evals.prompts.generation import check_overrides

    try:
        check_overrides(given)
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None
    return given


def _gate(text: str) -> Gate:
    from pytest_evals.errors import OptionError
    from pytest_evals.gates.grammar import read_expression

    try:
        return read_expression(text)
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None
