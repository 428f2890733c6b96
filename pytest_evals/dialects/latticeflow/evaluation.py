"""Reads run files and evaluations: which tasks run, with which parameters, on which
samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.latticeflow.entities import LISTS, Entity, subfile
from pytest_evals.dialects.latticeflow.fields import check_key, read_header
from pytest_evals.dialects.latticeflow.parameters import (
    Parameter,
    ParameterValue,
    read_parameters,
    resolve_values,
)
from pytest_evals.dialects.latticeflow.substitution import Values, substitute
from pytest_evals.dialects.latticeflow.task_rows import Subsample
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError

_SUBSAMPLING = ("head", "random")
_DEBUG = 10
"""Number of samples of ``mode: debug``."""
JUDGE_KEY = "judge"
"""Key of the session's judge, used for a judge without a key."""
_SCOPES = ("use_cases", "domains", "providers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """One task of an evaluation.

    Args:
        model: Key of the tested model; empty if it is not set.
        subsample: Samples to run; ``None`` for all.
        n_trials: Trials per sample; 0 for the task's own number.
        n_runs: Runs of the whole task; more than 1 to measure repeatability.
    """

    key: str
    task: str
    config: Mapping[str, ParameterValue]
    model: str
    subsample: Subsample | None
    n_trials: int
    n_runs: int
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The ``evaluation`` section of a run file."""

    key: str
    display_name: str
    specifications: tuple[Specification, ...]
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A run file.

    Args:
        evaluation: ``None`` if the file only lists entities.
        secrets: Name → value; never shown.
    """

    evaluation: Evaluation | None
    secrets: Mapping[str, str]
    file: YamlFile
    parameters: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class _Sizes(NamedTuple):
    """Default numbers of samples and trials of an evaluation or a run."""

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
    """Reads one file into a :class:`RunFile`."""

    def __init__(self, entity: Entity, given: Mapping[str, Any]) -> None:
        self._entity, self._given = entity, given
        self.problems: list[Problem] = []
        self._warnings = list(entity.file.warnings)
        self._declared: list[str] = []

    def evaluation_file(self) -> RunFile:
        """Read an evaluation without a run file."""
        evaluation = self._evaluation(self._entity.file, {}, _Sizes())
        return RunFile(
            evaluation=evaluation,
            secrets={},
            file=self._entity.file,
            parameters=tuple(self._declared),
            warnings=tuple(self._warnings),
        )

    def run_file(self) -> RunFile:
        """Read a run file; the entities that it lists are read when they are used."""
        top = Section(self._entity.file, self.problems)
        for name in LISTS:
            top.entries(name)
        secrets = top.take("secrets", dict, {})
        for name, value in secrets.items():
            if not isinstance(value, str):
                place = top.file.place("secrets", name)
                self.problems.append(
                    Problem(f"the secret {name!r} must be a string", place)
                )
        config = {
            str(name): ParameterValue(value, top.file.place("config", name))
            for name, value in top.take("config", dict, {}).items()
        }
        sizes = self._run_config(top)
        section = top.section("evaluation")
        top.close("a run file")
        evaluation = None
        if isinstance(top.values.get("evaluation"), dict):
            part = subfile(self._entity.file, "evaluation")
            evaluation = self._evaluation(part, config, sizes)
        elif section is None and config:
            top.problem(
                "config",
                "config has values for an evaluation, but the file has no evaluation",
            )
        return RunFile(
            evaluation=evaluation,
            secrets={str(k): v for k, v in secrets.items() if isinstance(v, str)},
            file=self._entity.file,
            parameters=tuple(self._declared),
            warnings=tuple(self._warnings),
        )

    def _run_config(self, top: Section) -> _Sizes:
        section = top.section("run_config")
        if section is None:
            return _Sizes()
        sizes = _sizes(section, _Sizes())
        _cache_policy(section)
        trials = section.section("trials_config")
        if trials is not None:
            sizes = sizes._replace(
                n_trials=trials.whole("num_trials", 2, 2, MOST_REPEATS)
            )
            trials.close("trials_config")
        section.close("run_config")
        return sizes

    def _evaluation(
        self, file: YamlFile, config: Mapping[str, ParameterValue], run_file: _Sizes
    ) -> Evaluation:
        parameters = read_parameters(Section(file, self.problems))
        known = {one.key for one in parameters}
        self._declared += known
        typed = {
            name: ParameterValue(value, _OPTION)
            for name, value in self._given.items()
            if name in known
        }
        given = {**config, **typed}
        values = resolve_values(parameters, given, self.problems, _fallback)
        steps = ("task_specifications",)
        filled = substitute(file, steps, Values(values), self.problems)
        top = Section(filled, self.problems)
        header = read_header(top, "an evaluation", ("key", "display_name"))
        if top.values.get("description") is None:
            self._warnings.append(f"{top.place('key')}: description is missing")
        own = _sizes(top, _Sizes())
        _cache_policy(top)
        debug = self._mode(top)
        sizes = _Sizes(
            run_file.n_samples or own.n_samples or debug,
            run_file.how or own.how,
            run_file.n_trials,
        )
        for name in (*_SCOPES, "config_spec"):
            top.raw(name)
        entries = top.entries("task_specifications")
        if not entries:
            what = "an evaluation needs task_specifications"
            fix = "task_specifications: [{task_key: my-task}]"
            top.problem("task_specifications", what, fix)
        top.close("an evaluation")
        return Evaluation(
            key=header.key,
            display_name=header.display_name,
            specifications=self._specifications(entries, sizes),
            place=top.place("key"),
        )

    def _mode(self, top: Section) -> int:
        if top.values.get("mode") is None:
            return 0
        mode = top.one_of("mode", "mode", ("debug", "full"), "full")
        fix = "num_samples: 10" if mode == "debug" else "remove it"
        self._warnings.append(f"{top.place('mode')}: mode is deprecated; {fix}")
        return _DEBUG if mode == "debug" else 0

    def _specifications(
        self, entries: list[Section], sizes: _Sizes
    ) -> tuple[Specification, ...]:
        specifications: dict[str, Specification] = {}
        tasks = Counter(str(entry.values.get("task_key")) for entry in entries)
        seen = Counter[str]()
        for entry in entries:
            task = str(entry.values.get("task_key"))
            seen[task] += 1
            auto = f"{task}_{seen[task]}" if tasks[task] > 1 else f"{task}"
            one = self._specification(entry, sizes, auto)
            if one.key in specifications:
                what = f"duplicate specification {one.key!r}"
                entry.problem("key", what, "use a unique key")
            specifications[one.key] = one
        return tuple(specifications.values())

    def _specification(self, entry: Section, sizes: _Sizes, auto: str) -> Specification:
        key = entry.text("key", auto)
        if entry.values.get("key"):
            check_key(entry, "a specification")
        task = entry.name("task_key")
        if task is None:
            entry.problem("task_key", "task_key is missing", "task_key: my-task")
        config = {
            str(name): ParameterValue(
                value, entry.file.place(*entry.steps, "task_config", name)
            )
            for name, value in entry.take("task_config", dict, {}).items()
        }
        if entry.values.get("dataset_key") is not None:
            dataset = entry.text("dataset_key")
            config.setdefault(
                "dataset_key", ParameterValue(dataset, entry.place("dataset_key"))
            )
        own = _sizes(entry, sizes)
        n_runs, n_trials = self._repetitions(entry, sizes.n_trials)
        for name in ("display_name", "task_result_log_path"):
            entry.text(name)
        model = entry.text("model_key")
        entry.close("a task specification")
        how: Literal["head", "random"] = "random" if own.how == "random" else "head"
        return Specification(
            key=key,
            task=task or "",
            config=config,
            model=model,
            subsample=Subsample(n=own.n_samples, how=how) if own.n_samples else None,
            n_trials=n_trials,
            n_runs=n_runs,
            place=entry.place(),
        )

    def _repetitions(self, entry: Section, n_trials: int) -> tuple[int, int]:
        """Return the number of runs of the whole task, and of trials per sample."""
        kinds = ("standard", "repeatability")
        kind = entry.one_of("type", "type of specification", kinds, kinds[0])
        n_runs = 1
        section = entry.section("repeatability")
        if section is not None:
            n_runs = section.whole("num_runs", 2, 2, MOST_REPEATS)
            if section.values.get("num_runs") is None:
                section.problem("num_runs", "num_runs is missing", "num_runs: 5")
            section.close("repeatability")
        if (kind == "repeatability") != (section is not None):
            what = (
                "type: repeatability requires repeatability: {num_runs: …}, and "
                "vice versa"
            )
            entry.problem("type" if section is None else "repeatability", what)
        trials = entry.section("trials")
        if trials is not None:
            n_trials = trials.whole("num_trials", 2, 2, MOST_REPEATS)
            trials.close("trials")
        return n_runs, n_trials


_OPTION = Place(Path("--evals-latticeflow-config"))


def _fallback(parameter: Parameter) -> str | None:
    """Return the key of a model that is not set: the tested model or the judge."""
    if parameter.type != "model":
        return None
    return JUDGE_KEY if parameter.usage == "judge_model" else ""


def _sizes(section: Section, default: _Sizes) -> _Sizes:
    n, how = default.n_samples, default.how
    if section.values.get("num_samples") is not None:
        n = section.whole("num_samples", 1, 1)
    else:
        section.raw("num_samples")
    if section.values.get("subsampling") is not None:
        how = section.one_of(
            "subsampling", "subsampling", _SUBSAMPLING, _SUBSAMPLING[0]
        )
    else:
        section.raw("subsampling")
    return default._replace(n_samples=n, how=how)


def _cache_policy(section: Section) -> None:
    """Check ``cache_policy``, which has no effect: options control the cache."""
    words = ("reuse", "update", "no-cache")
    section.one_of("cache_policy", "cache_policy", words, words[0])
