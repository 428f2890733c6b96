"""Check model and task compatibility before a model is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from pytest_evals.core.task import ModelUse, Task
from pytest_evals.errors import OptionError, Place
from pytest_evals.models import registry
from pytest_evals.models.spec import kind_name
from pytest_evals.plugin.models.session_models import (
    DocumentItem,
    Models,
    by_definition,
    prepare_of,
)
from pytest_evals.plugin.settings.options import OPTIONS
from pytest_evals.plugin.settings.process import is_distributed
from pytest_evals.plugin.suite.eval_files import named_places
from pytest_evals.plugin.suite.task_index import skips_of
from pytest_evals.run.cached_model import CachedModels
from pytest_evals.run.readiness import NO_JUDGE, PlannedRequests, why_refused

_SCORED = frozenset({"multiple_choice", "loglikelihood", "loglikelihood_rolling"})
_SHOWN = 10  # tasks that a message lists


def check_models(
    config: pytest.Config, answers: CachedModels, spec: str, tasks: Sequence[Task]
) -> None:
    """Refuse invalid specs, models that do not support a task, and missing judges,
    unless a hook opens them."""
    options = config.stash[OPTIONS]
    if options.merge:
        return
    if spec:
        check_model(config, answers, spec, tasks)
    # A controller of workers has not read the conftests below the folders.
    if not is_distributed(config) and not overrides_judge(config):
        _check_judges(answers, options.judge, tasks, may_lack=options.validate)


class InvalidModelError(KeyboardInterrupt):
    """A model that cannot exist: ends the collection, which catches exceptions."""


def refuse_early(
    config: pytest.Config, tested: Iterable[tuple[CachedModels, str]]
) -> None:
    """Refuse invalid specs before the documents of a file are collected. A controller
    of workers, which refuse them, and ``--evals-validate`` report them later.
    ``tested``: the specs of all tested models, each with its stored responses.

    Raises:
        InvalidModelError: With the message of the usage error.
    """
    options = config.stash[OPTIONS]
    if is_distributed(config) or options.validate or options.merge:
        return
    try:
        for answers, spec in tested:
            check_models(config, answers, spec, ())
    except pytest.UsageError as error:
        specs = [one.spec for one in options.models]
        given = filter(None, (*specs, options.judge))
        is_built_in = all(kind_name(text) in registry.KINDS for text in given)
        if is_built_in or not _has_unread_conftests(config):
            raise InvalidModelError(str(error)) from None


def _has_unread_conftests(config: pytest.Config) -> bool:
    """Whether a folder that is collected later may have a hook for a kind of model."""
    read = {vars(one).get("__file__") for one in config.pluginmanager.get_plugins()}
    skips = skips_of(config)
    for place in named_places(config):
        for folder, folders, names in os.walk(place):
            folders[:] = [one for one in folders if not skips(Path(folder, one))]
            conftest = os.path.join(folder, "conftest.py")
            if "conftest.py" in names and conftest not in read:
                return True
    return False


def check_model(
    config: pytest.Config, answers: CachedModels, spec: str, tasks: Sequence[Task]
) -> None:
    """Refuse an invalid spec, or a model that does not support its tasks, unless a hook
    opens it."""
    asking = [task for task in tasks if task.asks_model]
    try:
        _check_model(spec, asking, chat=config.stash[OPTIONS].apply_chat_template)
    except pytest.UsageError:
        if answers.is_hooked(spec):
            return
        raise
    options, pytests = config.stash[OPTIONS], config.option
    is_mode = options.validate or options.plan or options.cache_info
    sends_nothing = is_mode or pytests.collectonly or pytests.setupplan
    if not sends_nothing and options.cache != "only":
        _check_scoring(answers, spec, asking)


def check_ready(
    config: pytest.Config, spec: str, models: Models, items: Sequence[DocumentItem]
) -> None:
    """Refuse models that cannot be opened on this machine, if our fixtures open them
    and a response is not stored."""
    options = config.stash[OPTIONS]
    is_same = len(options.models) == 1
    for definition, members in by_definition(items).items():
        if len(options.models) > 1 and not definition.has_own_model:
            code = definition.model.func.__code__
            place = Place(Path(code.co_filename), code.co_firstlineno)
            raise pytest.UsageError(
                f"{place}: the fixture eval_model is one model, and several are given "
                "with --model\n"
                "  fix: open your models with pytest_evals_open_model(spec, config), "
                "or leave --model out"
            )
        tested = spec if definition.has_own_model else None
        judge = options.judge if definition.has_own_judge else None
        asked = PlannedRequests(
            jobs=[item.job for item in members],
            tested=tested,
            judge=tested if is_same and judge == options.model else judge,
            prepare=prepare_of(members),
            reuses=not options.repeatability,
        )
        error = why_refused(asked, models.inference.answers)
        if error is not None:
            raise pytest.UsageError(str(error))


_BY_GENERATION = "; or answer choices by generation: --evals-choices=generate"


def _check_model(text: str, tasks: Iterable[Task], *, chat: bool) -> None:
    """Refuse an invalid model, or one that does not support a task, with the reason and
    all affected tasks."""
    unfit: dict[str, list[str]] = {}
    try:
        spec = registry.parse_spec(text)
        registry.check_spec(spec)
        for task in tasks:
            needs = registry.TaskRequirements(
                task.output_type, chat, task.shows_images, task.sends_tools
            )
            why = registry.why_unfit(spec, needs)
            if why:
                by_text = needs._replace(output_type="generate_until")
                is_choice = task.output_type == "multiple_choice"
                if is_choice and not registry.why_unfit(spec, by_text):
                    why += _BY_GENERATION
                unfit.setdefault(why, []).append(_task_text(task))
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None
    if unfit:
        raise pytest.UsageError("\n".join(_message(*one) for one in unfit.items()))


def _check_scoring(answers: CachedModels, text: str, tasks: Iterable[Task]) -> None:
    """Refuse a server without log-probabilities for a task that needs them."""
    scored = [task for task in tasks if task.output_type in _SCORED]
    spec = registry.parse_spec(text)
    why_unable = registry.KINDS[spec.kind].why_unable
    if not scored or why_unable is None or answers.is_hooked(text):
        return
    why = why_unable(spec)
    if why:
        if any(task.output_type == "multiple_choice" for task in scored):
            why += _BY_GENERATION
        raise pytest.UsageError(_message(why, [_task_text(task) for task in scored]))


def _check_judges(
    answers: CachedModels, text: str, tasks: Iterable[Task], *, may_lack: bool
) -> None:
    """Refuse judges that are invalid or cannot generate, unless a hook opens them."""
    for task in tasks:
        for name, source in task.models.items():
            if callable(source) or (may_lack and not (source or text)):
                continue
            given, use = source or text, task.model_uses.get(name)
            why = _why_unfit_judge(given, use)
            if why and not (given and answers.is_hooked(given)):
                where = f"{task.name} ({task.source}) needs a judge"
                if source:
                    place, name = (use.place, use.name) if use else (task.source, name)
                    where = f"{place}: {name}"
                raise pytest.UsageError(f"{where}: {why}")
    try:
        if text:
            registry.check_spec(registry.parse_spec(text))
    except OptionError as error:
        if not answers.is_hooked(text):
            raise pytest.UsageError(f"--evals-judge: {error}") from None


def _why_unfit_judge(text: str, use: ModelUse | None) -> str:
    """Return why a model cannot reply to a scorer; empty if it can."""
    if not text:
        return NO_JUDGE
    shows_images = use is not None and use.shows_images
    needs = registry.TaskRequirements("generate_until", True, shows_images)
    try:
        spec = registry.parse_spec(text)
        registry.check_spec(spec)
        return registry.why_unfit(spec, needs)
    except OptionError as error:
        return str(error)


def overrides_judge(config: pytest.Config) -> bool:
    """Whether a conftest or plugin overrides the judge."""
    plugins = config.pluginmanager.get_plugins()
    return sum(hasattr(plugin, "eval_judge") for plugin in plugins) > 1


def _task_text(task: Task) -> str:
    return f"{task.name} ({task.output_type}, {task.source})"


def _message(why: str, tasks: list[str]) -> str:
    message, _, fix = why.partition("\n")
    more = f" and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else ""
    return f"{message}: {', '.join(tasks[:_SHOWN])}{more}\n{fix}"
