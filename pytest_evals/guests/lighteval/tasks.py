"""Tasks of a lighteval module (0.13.0): a Python file with a ``TASKS_TABLE``.

The module is executed, like a pytest test module; no dataset is read. All problems of
its tasks are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.core.node_names import is_node_name
from pytest_evals.core.task import Aggregate, Group, Task, TaskOptions
from pytest_evals.core.variant import Variant
from pytest_evals.dialects.json_values import as_json
from pytest_evals.errors import EvalsError, Place, Problem, TaskFileError, did_you_mean
from pytest_evals.guests.lighteval.config import grammar_text, line_of
from pytest_evals.guests.lighteval.data import Data
from pytest_evals.guests.lighteval.documents import TaskDocuments
from pytest_evals.guests.lighteval.modules import code_execution, load_task_module
from pytest_evals.guests.lighteval.prompt import SELECTIONS
from pytest_evals.guests.lighteval.scoring import FILTER, MetricScorer
from pytest_evals.guests.lighteval.task_metrics import TaskMetrics, task_metrics
from pytest_evals.masking.values import masked
from pytest_evals.prompts.generation import check_overrides
from pytest_evals.sandbox.runner import CONSENT
from pytest_evals.sandbox.session import current_sandbox
from pytest_evals.scorers.custom_metrics.metric import SamplingMethod

TABLE = "TASKS_TABLE"
OVERALL = "all"
"""lighteval's name for the average over all tasks."""
_OUTPUT_TYPES = {
    SamplingMethod.PERPLEXITY: "loglikelihood_rolling",
    SamplingMethod.LOGPROBS: "multiple_choice",
    SamplingMethod.GENERATIVE: "generate_until",
}
"""Kind of request → equivalent output type of other dialects; the kind that the fewest
models support comes first."""
_WITHOUT_EFFECT = frozenset({"frames", "metric", "suite", "trust_dataset"})


def load_tasks(path: Path, options: TaskOptions) -> tuple[Task | Group, ...]:
    """Load the tasks of a module that the options select, and their groups.

    Raises:
        TaskFileError: With all problems of the module.
        OptionError: A generation argument of the command line is invalid.
    """
    check_overrides(options.gen_kwargs)
    configs = _table(path, options.allow_unsafe_code)
    problems: list[Problem] = []
    tasks: list[Task] = []
    families = _families(configs)
    # The last entry of each name is used, as in lighteval.
    by_name: dict[Any, list[Any]] = {}
    for config in configs:
        key = config.name if isinstance(config.name, str) else id(config)
        by_name.setdefault(key, []).append(config)
    for *earlier, config in by_name.values():
        place = Place(path, line_of(config, str(path)))
        name = config.name if isinstance(config.name, str) else ""
        tags = tuple(family for family in (_family(name),) if family in families)
        if not options.takes([name, *tags]):
            continue
        invalid = [
            Problem(message, place, fix) for message, fix in config_problems(config)
        ]
        problems += invalid
        if invalid:
            continue
        overridden = tuple(Place(path, line_of(one, str(path))) for one in earlier)
        reader = _Reader(config, place, tags, options, overridden)
        try:
            tasks += reader.tasks()
        except TaskFileError as error:
            problems += error.problems
    if problems:
        raise TaskFileError(dict.fromkeys(problems))
    return (*tasks, *_groups(tasks, families, path, options))


def _table(path: Path, allow_unsafe_code: bool) -> list[Any]:
    module = load_task_module(path)
    table = getattr(module, TABLE, None)
    if not isinstance(table, list | tuple):
        message = f"{TABLE} must be a list of tasks, not {table!r:.80}"
        raise TaskFileError([Problem(message, Place(path))])
    for entry in table:
        # Ours, or of an installed lighteval.
        if not hasattr(entry, "name") or not hasattr(entry, "prompt_function"):
            message = (
                f"{TABLE} contains {entry!r:.80}, which is not a LightevalTaskConfig"
            )
            raise TaskFileError([Problem(message, Place(path))])
    if not table:
        raise TaskFileError([Problem(f"{TABLE} is empty", Place(path))])
    _check_execution(module, table, path, allow_unsafe_code)
    return list(table)


def _check_execution(
    module: ModuleType, table: Sequence[Any], path: Path, allow_unsafe_code: bool
) -> None:
    functions = [one.prompt_function for one in table]
    functions += [getattr(one, "hf_filter", None) for one in table]
    inputs = {getattr(one, "__name__", "") for one in functions}
    found, sandbox = code_execution(module, inputs), current_sandbox()
    if found.itself and not allow_unsafe_code:
        message = f"the metrics of this module execute model output: {found.itself}"
        raise TaskFileError([Problem(message, Place(path), CONSENT)])
    if found.in_sandbox and not sandbox.may_run(consents=allow_unsafe_code):
        message = "the metrics of this module execute model output"
        raise TaskFileError([Problem(message, Place(path), sandbox.remedy)])


def _family(name: str) -> str:
    head, colon, _ = name.partition(":")
    return head if colon else ""


def _families(configs: Sequence[Any]) -> set[str]:
    """Families of at least two tasks, unless a task has the same name."""
    names = [config.name for config in configs if isinstance(config.name, str)]
    heads = [_family(name) for name in dict.fromkeys(names)]
    return {one for one in heads if one and heads.count(one) > 1} - set(names)


_REMEDIES = {"stop": r'add "\n" to stop_sequence', "limit": "raise generation_size"}
_NORMALIZE = (
    'use Metrics.exact_match(sample_params={"normalize_gold": helm_normalizer, '
    '"normalize_pred": helm_normalizer})'
)
_OF_EXACT_MATCH = {
    "whitespace": "",  # stripped already
    "case": _NORMALIZE,
    "punctuation": _NORMALIZE,
}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Builds the tasks of one entry of the table.

    Args:
        tags: The family, if there is one.
        overridden: File and line of earlier entries with the same name.
    """

    config: Any
    place: Place
    tags: tuple[str, ...]
    options: TaskOptions
    overridden: tuple[Place, ...]

    def tasks(self) -> Iterator[Task]:
        variants = self.options.variants([self.config.name, *self.tags])
        for variant in variants:
            yield self._task(variant, is_one_of_several=len(variants) > 1)

    def _task(self, variant: Variant, *, is_one_of_several: bool) -> Task:
        config, options = self.config, self.options
        n_shots = self._n_shots(variant)
        measured = task_metrics(config, self.place, dict(variant.arguments), options)
        base = Path(options.base) if options.base else Path.cwd()
        data = Data(config, self.place, base)
        documents = TaskDocuments(data, measured, n_shots, options)
        scorer = MetricScorer(
            metrics=measured.metrics, bootstrap_iters=options.bootstrap_iters
        )
        output_type = next(
            word for method, word in _OUTPUT_TYPES.items() if method in measured.methods
        )
        name, tags = config.name, self.tags
        if is_one_of_several:
            tail = "" if variant.shots is not None else f"|{n_shots}"
            name, tags = f"{name}{variant}{tail}", (*tags, name)
        core_metrics = tuple(scorer.core_metrics())
        has_em = any(one.name == "em" for one in core_metrics)
        dumped = self._dumped(measured, n_shots, output_type)
        listed = ", ".join(map(str, self.overridden))
        override = f"duplicate task name: this definition overrides {listed}"
        notes = [override] if self.overridden else []
        return Task(
            name=name,
            source=self.place,
            rows=documents,
            ask=documents.ask,
            follow_up=scorer.follow_up if scorer.models else None,
            models=scorer.models,
            score=scorer,
            metrics=core_metrics,
            output_type=output_type,
            overall=OVERALL,
            tags=tags,
            version=config.version,
            n_shots=n_shots,
            repeats=measured.n_samples,
            reasoning_tags=() if options.reasoning_tags == () else None,
            config=masked(dumped),
            remedies=_REMEDIES | (_OF_EXACT_MATCH if has_em else {}),
            warnings=lambda: (
                *notes,
                *measured.warnings,
                *documents.warnings,
                *(text for one in measured.metrics for text in one.warnings),
            ),
        )

    def _n_shots(self, variant: Variant) -> int:
        if variant.shots is not None:
            return variant.shots
        num_fewshot = self.options.num_fewshot
        return int(self.config.num_fewshots if num_fewshot is None else num_fewshot)

    def _dumped(
        self, metrics: TaskMetrics, n_shots: int, output_type: str
    ) -> dict[str, Any]:
        config = self.config
        names = [one.name for one in fields(config)] if is_dataclass(config) else []
        values = {
            name: as_json(getattr(config, name))
            for name in names
            if name not in _WITHOUT_EFFECT and getattr(config, name) is not None
        }
        return {
            **values,
            "task": config.name,
            "dataset_path": config.hf_repo,
            "dataset_name": config.hf_subset,
            "metrics": metrics.definitions(),
            "num_fewshot": n_shots,
            "output_type": output_type,
            "repeats": metrics.n_samples,
            "metadata": {"version": config.version},
        }


def _groups(
    tasks: Sequence[Task], families: set[str], path: Path, options: TaskOptions
) -> Iterator[Group]:
    """Groups of the families: the unweighted mean of each metric of all tasks."""
    by_family: dict[str, list[Task]] = {}
    for task in tasks:
        for family in families.intersection(task.tags):
            by_family.setdefault(family, []).append(task)
    for family, members in by_family.items():
        each = [[metric.name for metric in task.metrics] for task in members]
        names = [name for name in each[0] if all(name in one for one in each)]
        if names and len(members) > 1 and options.takes([family]):
            yield Group(
                name=family,
                source=Place(path),
                children=tuple(members),
                aggregates=tuple(
                    Aggregate(metric=name, filters=(FILTER,), weighted=False)
                    for name in names
                ),
            )


def config_problems(config: Any) -> Iterator[tuple[str, str]]:
    """All problems of a task's fields, each with its fix, which may be empty."""
    yield from _name_problems(config.name)
    for key, (is_valid, expected, fix) in _FIELDS.items():
        if not is_valid(given := getattr(config, key)):
            yield _invalid(key, expected, given, fix)
    if isinstance(config.metrics, _COLLECTIONS) and not config.metrics:
        yield "metrics is empty", _METRICS
    for key in ("evaluation_splits", "hf_avail_splits", "stop_sequence"):
        yield from _text_problems(config, key)
    chosen = config.few_shots_select
    if isinstance(chosen, str) and chosen not in SELECTIONS:
        hint = did_you_mean(chosen, list(SELECTIONS))
        listed = ", ".join(SELECTIONS)
        yield f"few_shots_select must be one of {listed}, not {chosen!r}{hint}", ""
    try:
        if config.generation_grammar is not None:
            grammar_text(config.generation_grammar)
    except EvalsError as error:
        yield str(error), ""


def _name_problems(name: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(name, str) or not name:
        yield _invalid("name", "a string", name)
    elif any(sign in name for sign in ("::", "[", "]", "|", "@")):
        yield f"name must not contain '::', '[', ']', '|' or '@': {name!r}", ""
    elif not is_node_name(name):
        yield f"name must not contain control characters: {name!r}", ""


def _text_problems(config: Any, key: str) -> Iterator[tuple[str, str]]:
    given = getattr(config, key)
    if key == "evaluation_splits" and not given:
        yield "evaluation_splits is empty", 'evaluation_splits=["test"]'
    elif isinstance(given, str):
        yield _invalid(key, "a list of strings", given, f"{key}=[{given!r}]")
    elif given is not None and not (
        isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)
    ):
        yield _invalid(key, "a list of strings", given)


def _is_integer(value: Any, least: float = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_text(value: Any) -> bool:
    return isinstance(value, str | None)


def _are_counts(value: Any) -> bool:
    listed = value if isinstance(value, list | tuple) else [value]
    return value is None or all(map(_is_integer, listed))


_COLLECTIONS = (list, tuple, set, frozenset)
_METRICS = "metrics=[Metrics.exact_match]"
_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str, str]] = {
    "prompt_function": (callable, "a function", ""),
    "hf_repo": (lambda v: isinstance(v, str) and bool(v), "the name of a dataset", ""),
    "hf_subset": (_is_text, "a string", ""),
    "hf_revision": (_is_text, "a string", ""),
    "few_shots_split": (_is_text, "a string", ""),
    "few_shots_select": (_is_text, "a string", ""),
    "hf_filter": (lambda v: v is None or callable(v), "a function of a row", ""),
    "metrics": (lambda v: isinstance(v, _COLLECTIONS), "a list of metrics", _METRICS),
    "generation_size": (
        lambda v: v is None or (_is_integer(v, -1) and v != 0),
        "a positive integer",
        "",
    ),
    "num_fewshots": (lambda v: _is_integer(v, 0), "a non-negative integer", ""),
    "num_samples": (_are_counts, "a positive integer or a list of them", ""),
    "version": (lambda v: isinstance(v, int | str), "a number or a string", ""),
}
"""Field → whether its value is valid, the expected values, and a fix."""


def _invalid(key: str, expected: str, value: Any, fix: str = "") -> tuple[str, str]:
    return f"{key} must be {expected}, not {value!r:.80}", fix
