"""Reads run files and evaluations: which tasks run, with which parameters, on which
samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.guests.latticeflow.entities import LISTS, Entity, subfile
from pytest_evals.guests.latticeflow.fields import (
    check_key,
    entry_problem,
    need,
    read_header,
    required_entries,
    required_name,
)
from pytest_evals.guests.latticeflow.parameters import (
    Parameter,
    ParameterValue,
    read_parameters,
    resolve_values,
)
from pytest_evals.guests.latticeflow.reader import Values, substitute
from pytest_evals.guests.latticeflow.task_file import Subsample

_DEBUG = 10
"""Number of samples of ``mode: debug``."""
JUDGE_KEY = "judge"
"""Key of the session's judge, used for a judge without a key."""
OPTION = Place(Path("--evals-latticeflow-config"))
"""Place of parameter values of the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """One task of an evaluation."""

    key: str
    task: str
    config: Mapping[str, ParameterValue]
    model: str  # key of the tested model, if it is set
    subsample: Subsample | None  # samples to run; None for all
    n_trials: int  # per sample; 0 for the task's own number
    n_runs: int  # of the whole task; more than 1 to measure repeatability
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The ``evaluation`` section of a run file."""

    key: str
    specifications: tuple[Specification, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A run file."""

    evaluation: Evaluation | None = None  # None if the file only lists entities
    secrets: Mapping[str, str]  # name → value; never shown
    parameters: tuple[str, ...]  # that the evaluation declares


class _Sizes(NamedTuple):
    n_samples: int = 0
    how: str = ""
    n_trials: int = 0


def read_run(entity: Entity, given: Mapping[str, Any]) -> RunFile:
    """Return a run file, or an evaluation in a separate file. ``given``: values of
    parameters; they override those of the file."""
    reader = _RunReader(entity, given)
    file = reader.run_file() if entity.kind == "run" else reader.evaluation_file()
    if reader.problems:
        raise TaskFileError(reader.problems)
    return file


class _RunReader:
    def __init__(self, entity: Entity, given: Mapping[str, Any]) -> None:
        self._entity, self._given = entity, given
        self.problems: list[Problem] = []
        self._declared: tuple[str, ...] = ()

    def evaluation_file(self) -> RunFile:
        evaluation = self._evaluation(self._entity.file, {}, _Sizes())
        return RunFile(evaluation=evaluation, secrets={}, parameters=self._declared)

    def run_file(self) -> RunFile:
        """Read a run file; the entities that it lists are read when they are used."""
        top = Section(self._entity.file, self.problems)
        for name in LISTS:
            top.entries(name)
        secrets = top.take("secrets", dict, {})
        for name, value in secrets.items():
            if not isinstance(value, str):
                what = f"the secret {name!r} must be a string"
                entry_problem(top, "secrets", name, what)
        config, sizes = _values(top, "config"), _run_config(top)
        section, evaluation = top.section("evaluation"), None
        top.close("a run file")
        if isinstance(top.values.get("evaluation"), dict):
            part = subfile(self._entity.file, "evaluation")
            evaluation = self._evaluation(part, config, sizes)
        elif section is None and config:
            what = "config has values for an evaluation, but the file has no evaluation"
            top.problem("config", what)
        return RunFile(
            evaluation=evaluation,
            secrets={str(k): v for k, v in secrets.items() if isinstance(v, str)},
            parameters=self._declared,
        )

    def _evaluation(
        self, file: YamlFile, config: Mapping[str, ParameterValue], run_sizes: _Sizes
    ) -> Evaluation:
        parameters = read_parameters(Section(file, self.problems))
        self._declared = tuple(one.key for one in parameters)
        typed = {
            name: ParameterValue(value, OPTION)
            for name, value in self._given.items()
            if name in self._declared
        }
        values = resolve_values(
            parameters, {**config, **typed}, self.problems, _fallback
        )
        steps = ("task_specifications",)
        filled = substitute(file, steps, Values(values), self.problems)
        top = Section(filled, self.problems)
        header = read_header(top, "an evaluation", ("key", "display_name"))
        own = _sizes(top, _Sizes())
        _cache_policy(top)
        is_debug = top.raw("mode") is not None and (
            top.one_of("mode", "mode", ("debug", "full"), "full") == "debug"
        )
        sizes = _Sizes(
            run_sizes.n_samples or own.n_samples or (_DEBUG if is_debug else 0),
            run_sizes.how or own.how,
            run_sizes.n_trials,
        )
        for name in ("use_cases", "domains", "providers", "config_spec"):
            top.raw(name)
        what = "an evaluation needs task_specifications"
        fix = "[{task_key: my-task}]"
        entries = required_entries(top, "task_specifications", fix, what)
        top.close("an evaluation")
        return Evaluation(
            key=header.key, specifications=_specifications(entries, sizes)
        )


def _fallback(parameter: Parameter) -> str | None:
    if parameter.type != "model":
        return None
    return JUDGE_KEY if parameter.usage == "judge_model" else ""


def _values(section: Section, key: str) -> dict[str, ParameterValue]:
    return {
        str(name): ParameterValue(value, section.file.place(*section.steps, key, name))
        for name, value in section.take(key, dict, {}).items()
    }


def _run_config(top: Section) -> _Sizes:
    section = top.section("run_config")
    if section is None:
        return _Sizes()
    sizes = _sizes(section, _Sizes())
    _cache_policy(section)
    sizes = sizes._replace(n_trials=_trials(section, "trials_config", 0))
    section.close("run_config")
    return sizes


def _sizes(section: Section, default: _Sizes) -> _Sizes:
    n, how = default.n_samples, default.how
    if section.raw("num_samples") is not None:
        n = section.whole("num_samples", 1, 1)
    if section.raw("subsampling") is not None:
        known = ("head", "random")
        how = section.one_of("subsampling", "subsampling", known, known[0])
    return default._replace(n_samples=n, how=how)


def _cache_policy(section: Section) -> None:
    """Check ``cache_policy``, which has no effect: options control the cache."""
    words = ("reuse", "update", "no-cache")
    section.one_of("cache_policy", "cache_policy", words, words[0])


def _trials(section: Section, key: str, default: int) -> int:
    trials = section.section(key)
    if trials is None:
        return default
    n = trials.whole("num_trials", 2, 2, MOST_REPEATS)
    trials.close(key)
    return n


def _specifications(entries: list[Section], sizes: _Sizes) -> tuple[Specification, ...]:
    specifications: dict[str, Specification] = {}
    tasks = Counter(str(entry.values.get("task_key")) for entry in entries)
    seen = Counter[str]()
    for entry in entries:
        task = str(entry.values.get("task_key"))
        seen[task] += 1
        auto = f"{task}_{seen[task]}" if tasks[task] > 1 else task
        one = _specification(entry, sizes, auto)
        if one.key in specifications:
            entry.problem(
                "key", f"duplicate specification {one.key!r}", "use a unique key"
            )
        specifications[one.key] = one
    return tuple(specifications.values())


def _specification(entry: Section, sizes: _Sizes, auto: str) -> Specification:
    key = entry.text("key", auto)
    if entry.values.get("key"):
        check_key(entry, "a specification")
    task = required_name(entry, "task_key", "my-task")
    config = _values(entry, "task_config")
    if entry.raw("dataset_key") is not None:
        dataset = ParameterValue(entry.text("dataset_key"), entry.place("dataset_key"))
        config.setdefault("dataset_key", dataset)
    own, n_runs = _sizes(entry, sizes), _runs(entry)
    n_trials = _trials(entry, "trials", sizes.n_trials)
    for name in ("display_name", "task_result_log_path"):
        entry.text(name)
    model = entry.text("model_key")
    entry.close("a task specification")
    how: Literal["head", "random"] = "random" if own.how == "random" else "head"
    return Specification(
        key=key,
        task=task,
        config=config,
        model=model,
        subsample=Subsample(n=own.n_samples, how=how) if own.n_samples else None,
        n_trials=n_trials,
        n_runs=n_runs,
        place=entry.place(),
    )


def _runs(entry: Section) -> int:
    kinds = ("standard", "repeatability")
    kind = entry.one_of("type", "type of specification", kinds, kinds[0])
    section = entry.section("repeatability")
    n_runs = 1
    if section is not None:
        need(section, "num_runs", "5")
        n_runs = section.whole("num_runs", 2, 2, MOST_REPEATS)
        section.close("repeatability")
    if (kind == "repeatability") != (section is not None):
        what = "type: repeatability requires repeatability: {num_runs: …}, and"
        key = "type" if section is None else "repeatability"
        entry.problem(key, f"{what} vice versa")
    return n_runs
