"""Reads run files and evaluations: which tasks run, with which parameters, on which
samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.guests.latticeflow.entities import LISTS, Entity
from pytest_evals.guests.latticeflow.fields import Keys
from pytest_evals.guests.latticeflow.parameters import (
    Parameter,
    ParameterValue,
    read_parameters,
    resolve_values,
)
from pytest_evals.guests.latticeflow.reader import Values, substitute
from pytest_evals.guests.latticeflow.task_file import Sizes

_DEBUG = 10  # Number of samples of mode: debug
JUDGE_KEY = "judge"  # Key of the session's judge, used for a judge without a key
OPTION = Place(Path("--evals-latticeflow-config"))
"""Place of parameter values of the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUse:
    """How a task is used: on its own, or by a specification of an evaluation."""

    name: str
    place: Place
    task: str = ""  # key of the task, in a specification
    config: Mapping[str, ParameterValue] = field(default_factory=dict)
    model: str = ""  # key of the tested model, if it is set
    sizes: Sizes = field(default_factory=Sizes)
    n_runs: int = 1  # of the whole task; more than 1 to measure repeatability
    evaluation: str = ""  # key of the evaluation


class RunFile(NamedTuple):
    """A run file."""

    specifications: tuple[TaskUse, ...] | None = None  # None without an evaluation
    parameters: tuple[str, ...] = ()  # that the evaluation declares
    secrets: Mapping[str, str] = {}  # name → value; never shown


def read_run(entity: Entity, given: Mapping[str, Any]) -> RunFile:
    """Return a run file, or an evaluation in a separate file. ``given``: values of
    parameters; they override those of the file."""
    problems: list[Problem] = []
    typed = {name: ParameterValue(value, OPTION) for name, value in given.items()}
    if entity.kind == "run":
        run = _run_file(entity.file, typed, problems)
    else:
        run = _evaluation(entity.file, {}, typed, Sizes(), problems)
    if problems:
        raise TaskFileError(problems)
    return run


def _run_file(
    file: YamlFile, typed: Mapping[str, ParameterValue], problems: list[Problem]
) -> RunFile:
    """Read a run file; the entities that it lists are read when they are used."""
    top, run = Keys(file, problems), RunFile()
    for name in LISTS:
        top.entries(name)
    secrets = top.take("secrets", dict, {})
    for name, value in secrets.items():
        if not isinstance(value, str):
            top.entry_problem("secrets", name, f"the secret {name!r} must be a string")
    config, section = _values(top, "config"), top.section("run_config")
    sizes = Sizes()
    if section is not None:
        sizes = _sizes(section, sizes, "trials_config")
        _cache_policy(section)
        section.close("run_config")
    evaluation = top.section("evaluation")
    top.close("a run file")
    if isinstance(top.values.get("evaluation"), dict):
        part = file.inside("evaluation")
        run = _evaluation(part, config, typed, sizes, problems)
    elif evaluation is None and config:
        message = "config has values for an evaluation, but the file has no evaluation"
        top.problem("config", message)
    known = {str(k): v for k, v in secrets.items() if isinstance(v, str)}
    return run._replace(secrets=known)


def _evaluation(
    file: YamlFile,
    config: Mapping[str, ParameterValue],
    typed: Mapping[str, ParameterValue],
    run_sizes: Sizes,
    problems: list[Problem],
) -> RunFile:
    parameters = read_parameters(Keys(file, problems))
    declared = tuple(one.key for one in parameters)
    given = {**config, **{name: typed[name] for name in declared if name in typed}}
    values = resolve_values(parameters, given, problems, _fallback)
    filled = substitute(file, "task_specifications", Values(values), problems)
    top = Keys(filled, problems)
    evaluation = top.header("an evaluation", ("key", "display_name"))
    run_limits = _sizes(top, Sizes())
    _cache_policy(top)
    is_debug = top.one_of("mode", "mode", ("debug", "full"), "full") == "debug"
    sizes = Sizes(
        run_sizes.n_samples or run_limits.n_samples or (_DEBUG if is_debug else 0),
        run_sizes.how or run_limits.how,
        run_sizes.n_trials,
    )
    for name in ("use_cases", "domains", "providers", "config_spec"):
        top.raw(name)
    message = "an evaluation needs task_specifications"
    entries = top.required_entries(
        "task_specifications", "[{task_key: my-task}]", message
    )
    top.close("an evaluation")
    found: dict[str, TaskUse] = {}
    keys = [str(entry.values.get("task_key")) for entry in entries]
    seen = Counter[str]()
    for key, entry in zip(keys, entries, strict=True):
        seen[key] += 1
        auto = f"{key}_{seen[key]}" if keys.count(key) > 1 else key
        one = _specification(entry, sizes, auto, evaluation)
        if one.name in found:
            message = f"duplicate specification {one.name!r}"
            entry.problem("key", message, "use a unique key")
        found[one.name] = one
    return RunFile(tuple(found.values()), declared)


def _fallback(parameter: Parameter) -> str | None:
    if parameter.type != "model":
        return None
    return JUDGE_KEY if parameter.usage == "judge_model" else ""


def _values(section: Keys, key: str) -> dict[str, ParameterValue]:
    return {
        str(name): ParameterValue(value, section.file.place(*section.steps, key, name))
        for name, value in section.take(key, dict, {}).items()
    }


def _sizes(section: Keys, default: Sizes, trials_key: str = "") -> Sizes:
    n, how, n_trials = default
    if section.raw("num_samples") is not None:
        n = section.whole("num_samples", 1, 1)
    if section.raw("subsampling") is not None:
        how = section.one_of("subsampling", "subsampling", ("head", "random"), "head")
    trials = section.section(trials_key) if trials_key else None
    if trials is not None:
        n_trials = trials.whole("num_trials", 2, 2, MOST_REPEATS)
        trials.close(trials_key)
    return Sizes(n, how, n_trials)


def _cache_policy(section: Keys) -> None:
    """Check ``cache_policy``, which has no effect: options control the cache."""
    words = ("reuse", "update", "no-cache")
    section.one_of("cache_policy", "cache_policy", words, words[0])


def _specification(entry: Keys, sizes: Sizes, auto: str, evaluation: str) -> TaskUse:
    key = entry.text("key", auto)
    if entry.values.get("key"):
        entry.check_key("a specification")
    task = entry.required_name("task_key", "my-task")
    config = _values(entry, "task_config")
    if entry.raw("dataset_key") is not None:
        dataset = ParameterValue(entry.text("dataset_key"), entry.place("dataset_key"))
        config.setdefault("dataset_key", dataset)
    sizes, n_runs = _sizes(entry, sizes, "trials"), _runs(entry)
    for name in ("display_name", "task_result_log_path"):
        entry.text(name)
    model = entry.text("model_key")
    entry.close("a task specification")
    return TaskUse(
        name=key,
        task=task,
        config=config,
        model=model,
        sizes=sizes,
        n_runs=n_runs,
        place=entry.place(),
        evaluation=evaluation,
    )


def _runs(entry: Keys) -> int:
    kinds = ("standard", "repeatability")
    kind = entry.one_of("type", "type of specification", kinds, kinds[0])
    section = entry.section("repeatability")
    n_runs = 1
    if section is not None:
        section.need("num_runs", "5")
        n_runs = section.whole("num_runs", 2, 2, MOST_REPEATS)
        section.close("repeatability")
    if (kind == "repeatability") != (section is not None):
        message = "type: repeatability requires repeatability: {num_runs: …}, and"
        key = "type" if section is None else "repeatability"
        entry.problem(key, f"{message} vice versa")
    return n_runs
