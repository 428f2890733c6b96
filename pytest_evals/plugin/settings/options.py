"""The options of a session, read and checked once.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_evals.plugin.settings.ini import ini_value
from pytest_evals.plugin.settings.option_checks import (
    check_encoding,
    check_together,
    usage_errors,
    with_place,
)
from pytest_evals.plugin.settings.option_table import TABLE, Option
from pytest_evals.plugin.settings.profile import apply_profile
from pytest_evals.plugin.settings.values import (
    at_least,
    mapping,
    one_of,
    percent,
    seconds,
    share,
    statuses,
    tag_pairs,
)

if TYPE_CHECKING:
    from pytest_evals.core.gate import Gate, Policy
    from pytest_evals.run.cached_model import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options of a session, read and checked once."""

    model: str
    judge: str
    tasks: tuple[str, ...]
    python_files: tuple[str, ...]
    include_path: tuple[Path, ...]
    limit: float | None
    sample: float | None
    num_fewshot: int | None
    seed: int
    apply_chat_template: bool
    exclude_own_shots: bool
    bootstrap_iters: int
    fewshot_as_multiturn: bool
    system_instruction: str
    choices: str
    gen_kwargs: Mapping[str, Any]
    reasoning_tags: tuple[tuple[str, str], ...] | None
    metadata: Mapping[str, Any]
    device: str
    batch_tokens: str
    ray: str
    dir: Path
    cache: Cache
    cache_info: str
    only: tuple[str, ...]
    save_baseline: str
    save_failed: bool
    compare: str
    json: Path | None
    html: Path | None
    markdown: Path | None
    junit: Literal["gates", "docs"]
    gates: tuple[Gate, ...]
    inconclusive: Policy
    min_overlap: float
    profile: str
    plan: bool
    repeatability: int
    stop: Literal["off", "curtail", "auto"]
    stop_error: float
    order_seed: int | None
    max_errors: float
    strict: bool
    latticeflow_config: Mapping[str, Any]
    latticeflow_csv_text: bool
    latticeflow_allow_code: tuple[Path, ...]
    latticeflow_snippet_timeout: float
    allow_unsafe_code: bool
    validate: bool
    write_out: int
    fast_path: bool

    @classmethod
    def from_config(cls, config: pytest.Config) -> Options:
        """Read the options.

        Raises:
            pytest.UsageError: A value means nothing, or two contradict each other.
        """
        try:
            return cls._read(config)
        except pytest.UsageError as error:
            raise with_place(config, error) from None

    @classmethod
    def _read(cls, config: pytest.Config) -> Options:
        raw = {option.name: _raw(config, option) for option in TABLE}
        check_encoding(raw)
        _learn(raw)
        check_together(raw)
        apply_profile(config, raw)
        base = config.invocation_params.dir
        include = _folders(config, raw["include-path"])
        folder = suite_root(config, include) / raw["dir"]
        return cls(
            include_path=include,
            **_inputs(raw, base),
            **_outputs(config, raw, folder),
            **_run_settings(config, raw),
        )


OPTIONS: pytest.StashKey[Options] = pytest.StashKey()
"""Key of the options in ``config.stash``."""


_NATURAL = at_least(0, "0 or a positive whole number")


def _inputs(raw: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Return the fields for the model, the tasks and their prompts."""
    return {
        "model": raw["model"],
        "judge": raw["judge"],
        "tasks": _names(raw["tasks"], base),
        "python_files": tuple(raw["python-files"].split()),
        "limit": _checked("limit", raw, share),
        "sample": _checked("sample", raw, share),
        "num_fewshot": _checked("num-fewshot", raw, _NATURAL),
        "seed": _checked("seed", raw, int),
        "apply_chat_template": raw["apply-chat-template"],
        "exclude_own_shots": raw["exclude-own-shots"],
        "bootstrap_iters": _checked("bootstrap-iters", raw, _NATURAL),
        "fewshot_as_multiturn": not raw["fewshot-as-one-turn"],
        "system_instruction": raw["system-instruction"],
        "choices": _checked("choices", raw, one_of("generate", "loglikelihood")) or "",
        "gen_kwargs": _generation(_checked("gen-kwargs", raw, mapping)),
        "reasoning_tags": _checked("reasoning-tags", raw, tag_pairs),
        "metadata": _checked("metadata", raw, mapping) or {},
        "device": raw["device"],
        "batch_tokens": raw["batch-tokens"],
        "ray": _cluster(raw),
    }


def _outputs(
    config: pytest.Config, raw: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """Return the fields for stored responses, baselines, reports and gates."""
    base = config.invocation_params.dir
    return {
        "dir": folder,
        "cache": _checked("cache", raw, one_of("use", "refresh", "off", "only")),
        "cache_info": raw["cache-info"],
        "only": _statuses(raw),
        "save_baseline": _checked("save-baseline", raw, _baseline_name) or "",
        "save_failed": raw["save-failed"],
        "compare": _baseline(raw["compare"], folder, base),
        "json": base / raw["json"] if raw["json"] else None,
        "html": _file(config, raw, "html"),
        "markdown": _file(config, raw, "markdown"),
        "junit": _checked("junit", raw, one_of("gates", "docs")),
        "gates": tuple(map(_gate, raw["gate"])),
        "inconclusive": _checked("inconclusive", raw, one_of("warn", "fail", "pass")),
        "min_overlap": _checked("min-overlap", raw, percent),
    }


def _run_settings(config: pytest.Config, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields for the mode and the limits of the run, and for dialects."""
    base = config.invocation_params.dir
    return {
        "profile": raw["profile"],
        "plan": raw["plan"],
        "repeatability": _checked("repeatability", raw, at_least(2, "2 or more runs"))
        or 0,
        "stop": _checked("stop", raw, one_of("off", "curtail", "auto")),
        "stop_error": _checked("stop-error", raw, percent),
        "order_seed": _typed_seed(config, raw),
        "max_errors": _checked("max-errors", raw, percent),
        "strict": raw["strict"],
        "latticeflow_config": _parameters(raw["latticeflow-config"]),
        "latticeflow_csv_text": raw["latticeflow-csv-text"],
        "latticeflow_allow_code": tuple(
            _code_root(base / path) for path in raw["latticeflow-allow-code"]
        ),
        "latticeflow_snippet_timeout": _checked(
            "latticeflow-snippet-timeout", raw, seconds
        ),
        "allow_unsafe_code": raw["allow-unsafe-code"],
        # Without a model only prompts can be shown.
        "validate": raw["validate"] or bool(raw["write-out"] and not raw["model"]),
        "write_out": _checked("write-out", raw, at_least(1, "a positive whole number"))
        or 0,
        "fast_path": _checked("fast-path", raw, one_of("on", "off")) == "on",
    }


def _raw(config: pytest.Config, option: Option) -> Any:
    """Command line before ini before default."""
    value = config.getoption(option.dest)
    if value is None and option.ini:
        value = ini_value(config, option)
    if value is None or value == "":
        return {"flag": False, "list": []}.get(option.kind, option.default)
    return value


def _names(text: str, base: Path) -> tuple[str, ...]:
    """Return the names of tasks, and those in the lines of text files."""
    names: list[str] = []
    for name in text.replace(",", " ").split():
        if name.endswith(".txt") and os.path.isfile(base / name):
            bare = (line.partition("#")[0] for line in _lines(base / name))
            names += [one for line in bare for one in line.replace(",", " ").split()]
        else:
            names.append(name)
    if names:
        from pytest_evals.run.selection import names_of

        with usage_errors():
            names_of(names)
    elif text:
        raise pytest.UsageError(
            f"--evals-tasks={text}: expected names of tasks, groups or tags"
        )
    return tuple(names)


def _lines(path: Path) -> list[str]:
    from pytest_evals.data.user_files import read_text
    from pytest_evals.errors import TaskFileError

    try:
        return read_text(path).splitlines()
    except TaskFileError as error:
        raise pytest.UsageError(f"--evals-tasks: {error}") from None


def _typed_seed(config: pytest.Config, raw: Mapping[str, Any]) -> int | None:
    """``--evals-seed`` if somebody has typed it."""
    option = next(one for one in TABLE if one.name == "seed")
    typed = config.getoption(option.dest), ini_value(config, option)
    return _checked("seed", raw, int) if any(typed) else None


def _statuses(raw: Mapping[str, Any]) -> tuple[str, ...]:
    words: tuple[str, ...] = _checked("only", raw, statuses) or ()
    if "regressed" in words and not raw["compare"]:
        raise pytest.UsageError(
            "--evals-only=regressed needs a baseline: give --evals-compare too"
        )
    return words


def _cluster(raw: Mapping[str, Any]) -> str:
    """The address of a Ray cluster, for a model that can be replicated."""
    text: str = raw["ray"]
    if text:
        from pytest_evals.errors import OptionError
        from pytest_evals.models.registry import KINDS

        try:
            KINDS["ray"].check_address(text)
        except OptionError as error:
            hint = ", or --evals-ray=auto" if os.path.exists(Path(text)) else ""
            raise pytest.UsageError(f"--evals-ray: {error}{hint}") from None
        if not raw["model"]:
            raise pytest.UsageError("--evals-ray needs a model, as in --model=hf:gpt2")
    return text


def _baseline_name(text: str) -> str:
    from pytest_evals.store.baselines import check_name

    return check_name(text)


def _baseline(name: str, folder: Path, here: Path) -> str:
    """The name of a baseline that exists."""
    if name:
        from pytest_evals.errors import StoreError
        from pytest_evals.result_files.baselines import find_run

        try:
            find_run(folder, name, here)
        except StoreError as error:
            raise pytest.UsageError(f"--evals-compare: {error}") from None
    return name


def suite_root(config: pytest.Config, include: Sequence[Path]) -> Path:
    """The rootdir; or the folder where pytest was started, if pytest took an include
    path for the rootdir, as it does with the value in ``--evals-include-path DIR``."""
    root, here = config.rootpath, config.invocation_params.dir
    mistaken = any(root.is_relative_to(path) for path in include)
    if mistaken and not any(here.is_relative_to(path) for path in include):
        return here
    return root


def _file(config: pytest.Config, raw: Mapping[str, Any], name: str) -> Path | None:
    """Return the file to write, if the option is given."""
    return _place(config, f"evals_{name}") / raw[name] if raw[name] else None


def _place(config: pytest.Config, dest: str) -> Path:
    """Return the base of relative paths: working directory or ini file's folder."""
    if config.getoption(dest) is not None:
        return config.invocation_params.dir
    return config.inipath.parent if config.inipath else config.rootpath


def _folders(config: pytest.Config, given: Sequence[str]) -> tuple[Path, ...]:
    """Folders as absolute paths."""
    base = _place(config, "evals_include_path")
    names = [n for text in given for part in text.split(",") for n in _paths(part)]
    folders = [
        Path(os.path.normpath(base / Path(os.path.expanduser(name.strip()))))
        for name in names
        if name.strip()
    ]
    for folder in folders:
        if not os.path.isdir(folder):
            raise pytest.UsageError(f"--evals-include-path: {folder} is not a folder")
    return tuple(dict.fromkeys(folders))


def _code_root(path: Path) -> Path:
    if not os.path.isdir(path):
        raise pytest.UsageError(
            f"--evals-latticeflow-allow-code: {path} is not a folder"
        )
    return path.resolve()


def _paths(text: str) -> list[str]:
    """A list as in ``PATH``; a single folder may have the separator in its name."""
    return [text] if os.path.isdir(Path(text)) else text.split(os.pathsep)


def _checked(name: str, raw: Mapping[str, Any], read: Callable[[str], Any]) -> Any:
    if raw[name] == "":
        return None
    try:
        return read(raw[name])
    except ValueError as error:
        detail = str(error)
        if detail.startswith("invalid literal"):
            detail = "expected a whole number"
        from pytest_evals.masking.values import masked_text

        shown = masked_text(raw[name])
        raise pytest.UsageError(f"--evals-{name}={shown}: {detail}") from None


def _learn(raw: Mapping[str, Any]) -> None:
    """Register the secrets in options and environment before any message contains
    them."""
    if not any(
        raw[one.name] not in ("", one.default) and raw[one.name] for one in TABLE
    ):
        return
    from pytest_evals.plugin.secrets import learn_environment

    learn_environment()
    models = [raw[name] for name in ("model", "judge", "ray")]
    others = [raw["metadata"], raw["gen-kwargs"], *raw["latticeflow-config"]]
    if any(models) or any(others):
        from pytest_evals.masking.values import masked_text

        for text in models:
            masked_text(text)
        for text in others:
            masked_text(text, loose=False)


def _parameters(given: Sequence[str]) -> Mapping[str, Any]:
    """Values by key, as lm-eval's command line reads values."""
    if not given:
        return {}
    from pytest_evals.core.cli_values import cli_value

    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(
                f"--evals-latticeflow-config={text}: expected KEY=VALUE, such as "
                "field=email"
            )
        found[key.strip()] = cli_value(value.strip())
    return found


def _generation(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if given is None:
        return {}
    from pytest_evals.prompts.generation import check_overrides

    with usage_errors():
        check_overrides(given)
    return given


def _gate(text: str) -> Gate:
    from pytest_evals.gates.read.entry import read_expression

    with usage_errors():
        return read_expression(text)
