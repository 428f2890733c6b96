"""The options of a session in the forms that others want: for tasks and for results
files; and what can only be checked when an eval file was found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.core.task import NameIndex, SuiteFiles, TaskOptions
from pytest_evals.errors import StoreError
from pytest_evals.models.names import NamedModel
from pytest_evals.models.registry import ModelHook
from pytest_evals.models.spec import is_command
from pytest_evals.plugin.settings.option_checks import usage_errors, with_place
from pytest_evals.plugin.settings.option_table import Options
from pytest_evals.plugin.settings.options import OPTIONS, suite_root
from pytest_evals.plugin.settings.process import STARTED, is_distributed
from pytest_evals.reports.files.model import model_arguments
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.config import RunConfig
from pytest_evals.run.selection import Selection
from pytest_evals.run.user_hooks import adds_metrics, registered_metrics
from pytest_evals.store.baselines import of_model as baseline_of
from pytest_evals.store.baselines import own_baseline
from pytest_evals.store.writable import check_base, check_empty, check_file


def answers_of(config: pytest.Config) -> CachedModels:
    """The store of a session, in front of the models that its options name."""
    hook = config.hook.pytest_evals_open_model

    def call(text: str) -> object | None:
        implementations = hook.get_hookimpls()
        caller = hook
        # A wrapper is given the model that our implementation opens.
        if not any(one.wrapper or one.hookwrapper for one in implementations):
            ours = [
                one.plugin
                for one in implementations
                if one.function.__module__.startswith("pytest_evals.")
            ]
            caller = config.pluginmanager.subset_hook_caller(hook.name, ours)
        found: object | None = caller(spec=text, config=config)
        return found

    model_hook = ModelHook(lambda: len(hook.get_hookimpls()) > 1, call)
    options = config.stash[OPTIONS]
    opens = not (options.cache == "only" or options.cache_info or options.merge)
    named = [*(one.spec for one in options.models), options.judge]
    return CachedModels(
        options.dir,
        options.cache,
        model_hook,
        opens=opens,
        # Those of the command line; :func:`check_commands` refuses an ini file's.
        commands=None
        if options.allow_server_commands
        else [spec for spec in named if is_command(spec)],
    )


def check_places(config: pytest.Config, options: Options) -> tuple[Path, ...]:
    """Refuse places that the results cannot be written to, before anything runs; return
    the folders that were made for them."""
    try:
        for name in ("json", "html", "markdown"):
            path = getattr(options, name)
            if path is not None:
                check_file(path, f"--evals-{name}")
        if options.run_dir is not None:
            check_empty(options.run_dir, "--evals-run-dir")
        return check_base(
            options.dir,
            "--evals-dir",
            stores=options.cache != "off",
            save=options.save_baseline,
        )
    except StoreError as error:
        raise with_place(config, pytest.UsageError(str(error))) from None


def full_spec(options: Options, spec: str) -> str:
    """Return a spec with ``--evals-device``, ``--evals-batch-tokens`` and
    ``--evals-ray`` added."""
    extra = {"device": options.device, "batch_tokens": options.batch_tokens}
    if spec.partition(":")[0] == "hf":
        spec += "".join(f",{k}={v}" for k, v in extra.items() if v)
    return f"ray:{spec},address={options.ray}" if options.ray else spec


def run_config(
    config: pytest.Config, options: Options, label: str, *, is_worker: bool
) -> RunConfig:
    """Return the configuration of a model's run. ``label``: its name, if there are
    several; ``is_worker``: whether this process is a worker of pytest-xdist."""
    return RunConfig(
        here=config.invocation_params.dir,
        root=config.rootpath,
        started=config.stash[STARTED],
        name=options.model,
        spec=options.model,
        full_spec=full_spec(options, options.model),
        label=label,
        save=options.save_baseline,
        consent="--evals-save-failed",
        chat=options.apply_chat_template,
        fills=bool(options.only),
        judges=not is_worker,
        shows_images=options.html is not None,
        options=public(options),
        **_shared(options, RunConfig),
    )


def _shared(options: Options, kind: Any) -> dict[str, Any]:
    """The options that a configuration has under the same name."""
    return {
        one.name: getattr(options, one.name)
        for one in fields(kind)
        if one.name in options.__slots__
    }


def task_options(
    config: pytest.Config,
    options: Options,
    selection: Selection,
    library: NameIndex,
    files: SuiteFiles,
) -> TaskOptions:
    """What the command line changes in every task."""
    root = suite_root(config, options.include_path)
    with usage_errors():
        metrics = registered_metrics(config.hook, config)
    return TaskOptions(
        takes=selection.may_take,
        variants=selection.variants,
        library=library,
        typed_seed=options.order_seed,
        chat=options.apply_chat_template,
        model_arguments=model_arguments(options.model),
        parameters=options.latticeflow_config,
        has_model=bool(options.model),
        has_judge=bool(options.judge),
        typed_csv=not options.latticeflow_csv_text,
        call_s=options.latticeflow_snippet_timeout,
        code_roots=_resolved(root, *options.latticeflow_allow_code),
        function_roots=_resolved(root, *options.include_path),
        root=str(root),
        base=str(config.invocation_params.dir),
        metrics=metrics,
        files=files,
        **_shared(options, TaskOptions),
    )


def _resolved(*paths: Path) -> tuple[str, ...]:
    return tuple(str(path.resolve()) for path in paths)


def of_model(options: Options, model: NamedModel) -> Options:
    """Return the options of one of several models, which has its own files: a folder
    of its run, a baseline, and the baseline that was saved so, if there is one."""
    save, folder = options.save_baseline, options.run_dir
    return replace(
        options,
        model=model.spec,
        save_baseline=baseline_of(save, model.name) if save else "",
        compare=own_baseline(options.dir, options.compare, model.name),
        run_dir=folder / file_name(model.name) if folder else None,
        json=path_of_model(options.json, model.name),
        html=path_of_model(options.html, model.name),
        markdown=None,
    )


def path_of_model(path: Path | None, model: str) -> Path | None:
    """Return the path of a model's own file next to that of all models:
    ``report-gpt2.html``."""
    if path is None:
        return None
    return path.with_name(f"{path.stem}-{file_name(model)}{path.suffix}")


def file_name(model: str) -> str:
    """Return the name of a model as part of the name of a file or folder."""
    return re.sub(r"[^\w.=-]+", "_", model)


_OF_SEVERAL = ("models", "reference")  # options that do not change the run of one model


def public(options: Options) -> dict[str, Any]:
    """The options as JSON values, for :class:`RunResult`, which masks secrets."""
    names = (name for name in options.__slots__ if name not in _OF_SEVERAL)
    plain = {name: getattr(options, name) for name in names}
    plain["include_path"] = [str(path) for path in options.include_path]
    # Merged parts have the results of one run, wherever they are written to.
    del plain["merge"], plain["run_dir"]
    return {k: str(v) if isinstance(v, Path) else v for k, v in plain.items()}


_HOOKS = (b"pytest_evals_metrics", b"pytest_evals_score")


def hooks_of(config: pytest.Config) -> Callable[[Path], bool]:
    """Whether hooks may add metrics to tasks of a folder, or change their scores.

    A controller of pytest-xdist loads no conftest.py below the folders of the command
    line: there it is enough that one of them has the name of such a hook.
    """

    def hooked(folder: Path) -> bool:
        if adds_metrics(config.hook):
            return True
        return is_distributed(config) and any(
            any(name in _raw(place / "conftest.py") for name in _HOOKS)
            for place in (folder, *folder.parents)
            if place.is_relative_to(config.rootpath)
        )

    return hooked


def _raw(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
