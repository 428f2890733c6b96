"""Read and check the options of a session.

Standard library and pytest only: this is imported in every pytest run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_evals.plugin.settings import option_checks
from pytest_evals.plugin.settings.option_checks import given, usage_errors, with_place
from pytest_evals.plugin.settings.option_table import FIELDS, TABLE, Option, Options
from pytest_evals.plugin.settings.parser import ini_value

if TYPE_CHECKING:
    from pytest_evals.core.gate import Gate
    from pytest_evals.models.names import NamedModel

OPTIONS: pytest.StashKey[Options] = pytest.StashKey()
"""Key of the options in ``config.stash``."""


def read_options(config: pytest.Config) -> Options:
    """Read the options; refuse values that mean nothing, or contradict each other."""
    try:
        return _read(config)
    except pytest.UsageError as error:
        raise with_place(config, error) from None


def _read(config: pytest.Config) -> Options:
    raw = {option.name: _raw(config, option) for option in TABLE}
    option_checks.check_encoding(raw)
    _learn(raw)
    option_checks.check_together(raw)
    option_checks.apply_profile(config, raw)
    values = {name: _value(one, raw[one.name]) for name, one in FIELDS.items()}
    base = config.invocation_params.dir
    include = _folders(config, raw["include-path"])
    folder = suite_root(config, include) / raw["dir"]
    roots = raw["latticeflow-allow-code"]
    models = _models(raw)
    if "regressed" in values["only"] and not raw["compare"]:
        raise pytest.UsageError(
            "--evals-only=regressed needs a baseline: give --evals-compare too"
        )
    if not hasattr(config, "workerinput"):
        option_checks.check_commands(config, raw, models)
    return Options(
        **values
        | {
            "models": models,
            "model": models[0].spec if models else "",
            "tasks": _names(raw["tasks"], base),
            "include_path": include,
            "fewshot_as_multiturn": not raw["fewshot-as-one-turn"],
            "ray": _cluster(raw),
            "dir": folder,
            "compare": _baseline(raw["compare"], folder, base, models),
            "json": base / raw["json"] if raw["json"] else None,
            "html": _file(config, raw, "html"),
            "merge": tuple(base / one for one in raw["merge"]),
            "run_dir": base / raw["run-dir"] if raw["run-dir"] else None,
            "markdown": _file(config, raw, "markdown"),
            "gates": tuple(map(_gate, raw["gate"])),
            "order_seed": values["seed"] if given(config, "seed") else None,
            "latticeflow_config": _parameters(raw["latticeflow-config"]),
            "latticeflow_allow_code": tuple(_code_root(base / one) for one in roots),
            # Without a model only prompts can be shown.
            "validate": raw["validate"]
            or bool(raw["prefetch"])
            or bool(raw["write-out"] and not raw["model"]),
        }
    )


def _value(option: Option, raw: Any) -> Any:
    if option.kind != "text":
        return raw
    if raw == "":
        return option.empty
    try:
        with usage_errors():
            return option.read(raw)
    except ValueError as error:
        detail = str(error)
        if detail.startswith("invalid literal"):
            detail = "expected a whole number"
        from pytest_evals.masking.values import masked_text

        shown = masked_text(raw)
        raise pytest.UsageError(f"{option.flag}={shown}: {detail}") from None


def _raw(config: pytest.Config, option: Option) -> Any:
    """Command line before ini before default."""
    value = config.getoption(option.dest)
    if value is None and option.ini:
        value = ini_value(config, option)
    if value is None or value == "":
        return {"flag": False, "list": []}.get(option.kind, option.default)
    return value


def _models(raw: Mapping[str, Any]) -> tuple[NamedModel, ...]:
    texts = [text for text in raw["model"] if text.strip()]
    if not texts:
        return ()
    from pytest_evals.models.names import read_models

    with usage_errors():
        models = read_models(texts)
    if len(models) > 1:
        option_checks.check_several(raw, [one.name for one in models])
    return models


def _names(text: str, base: Path) -> tuple[str, ...]:
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


def _cluster(raw: Mapping[str, Any]) -> str:
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


def _baseline(name: str, folder: Path, here: Path, models: Sequence[NamedModel]) -> str:
    """Check that each model has a baseline: its own, or one that all share."""
    if name:
        from pytest_evals.errors import StoreError
        from pytest_evals.result_files.baselines import find_run
        from pytest_evals.store.baselines import own_baseline

        labels = [one.name for one in models] if len(models) > 1 else [""]
        try:
            for label in labels:
                find_run(folder, own_baseline(folder, name, label), here)
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
    return _place(config, f"evals_{name}") / raw[name] if raw[name] else None


def _place(config: pytest.Config, dest: str) -> Path:
    """Return the base of relative paths: working directory or ini file's folder."""
    if config.getoption(dest) is not None:
        return config.invocation_params.dir
    return config.inipath.parent if config.inipath else config.rootpath


def _folders(config: pytest.Config, texts: Sequence[str]) -> tuple[Path, ...]:
    base = _place(config, "evals_include_path")
    names = [n for text in texts for part in text.split(",") for n in _paths(part)]
    folders = [_folder(base, name.strip()) for name in names if name.strip()]
    return tuple(dict.fromkeys(folders))


def _folder(base: Path, name: str) -> Path:
    """A folder, or that of the tasks of an installed package such as ``lm_eval``."""
    folder = Path(os.path.normpath(base / Path(os.path.expanduser(name))))
    if os.path.isdir(folder):
        return folder
    from pytest_evals.dialects.task_index.packages import folder_of
    from pytest_evals.errors import similar_file

    found = folder_of(name)
    if found is None:
        message = f"--evals-include-path: {folder} is not a folder"
        also = f", and no package {name!r} is installed" if name.isidentifier() else ""
        fix = "\n  fix: name a folder with task files, or install a package with them"
        raise pytest.UsageError(message + (similar_file(folder) or also) + fix)
    return found


def _code_root(path: Path) -> Path:
    if not os.path.isdir(path):
        raise pytest.UsageError(
            f"--evals-latticeflow-allow-code: {path} is not a folder"
        )
    return path.resolve()


def _paths(text: str) -> list[str]:
    """A list as in ``PATH``; a single folder may have the separator in its name."""
    return [text] if os.path.isdir(Path(text)) else text.split(os.pathsep)


def _learn(raw: Mapping[str, Any]) -> None:
    """Register the secrets in options and environment before any message contains
    them."""
    if not any(
        raw[one.name] not in ("", one.default) and raw[one.name] for one in TABLE
    ):
        return
    from pytest_evals.plugin.secrets import learn_environment

    learn_environment()
    models = [*raw["model"], raw["judge"], raw["ray"]]
    others = [raw["metadata"], raw["gen-kwargs"], *raw["latticeflow-config"]]
    if any(models) or any(others):
        from pytest_evals.masking.values import masked_text

        for text in models:
            masked_text(text)
        for text in others:
            masked_text(text, loose=False)


def _parameters(texts: Sequence[str]) -> Mapping[str, Any]:
    if not texts:
        return {}
    from pytest_evals.core.cli_values import cli_value

    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(
                f"--evals-latticeflow-config={text}: expected KEY=VALUE, such as "
                "field=email"
            )
        found[key.strip()] = cli_value(value.strip())
    return found


def _gate(text: str) -> Gate:
    from pytest_evals.gates.read.entry import read_expression

    with usage_errors():
        return read_expression(text)
