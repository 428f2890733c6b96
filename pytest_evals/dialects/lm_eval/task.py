"""Task files of lm-eval (0.4.13): a YAML file → a task.

Checks everything that does not need the dataset and reports all problems of a file
together. Rows are read on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_evals.core.gate import Gate
from pytest_evals.core.metric import Metric
from pytest_evals.core.node_names import is_node_name
from pytest_evals.core.task import Group, Task, TaskOptions
from pytest_evals.data.calls import collecting
from pytest_evals.dialects.detect import TASK_KEYS
from pytest_evals.dialects.gates_section.entries import (
    GATE_FIXES,
    metadata_of,
    metadata_warnings,
    own_gates,
    refusals_of,
)
from pytest_evals.dialects.generative_choices import choices_of, is_generated
from pytest_evals.dialects.json_values import as_json
from pytest_evals.dialects.lm_eval.functions import resolve, unresolved_function
from pytest_evals.dialects.lm_eval.prompt_keys import read_recipe
from pytest_evals.dialects.lm_eval.prompts.documents import Documents
from pytest_evals.dialects.lm_eval.prompts.recipe import Recipe
from pytest_evals.dialects.lm_eval.prompts.tables import row_lines
from pytest_evals.dialects.lm_eval.scoring.repeats import Repeats
from pytest_evals.dialects.lm_eval.scoring.scorer import Scorer
from pytest_evals.dialects.lm_eval.scoring_keys import read_scoring
from pytest_evals.dialects.metadata_keys import CHOICES, REFUSALS, without_own
from pytest_evals.dialects.yaml_reader.includes import read_with_includes
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.dialects.yaml_reader.yaml_file import FunctionRef, YamlFile
from pytest_evals.errors import Place, Problem, TaskFileError
from pytest_evals.masking.values import masked
from pytest_evals.prompts.generation import GREEDY
from pytest_evals.sandbox.runner import CONSENT
from pytest_evals.sandbox.session import current_sandbox
from pytest_evals.scorers.filters import TAKE_FIRST
from pytest_evals.scorers.near_misses import LETTER, MARKDOWN, NUMBER

_REMEDIES = {
    "whitespace": "add filter remove_whitespace",
    "target": "remove the whitespace from doc_to_target",
    "markdown": f"add filter regex with regex_pattern: '{MARKDOWN}'",
    "first number": f"add filter regex with regex_pattern: '{NUMBER}'",
    "last number": f"add filter regex with regex_pattern: '{NUMBER}', group_select: -1",
    "first letter": f"add filter regex with regex_pattern: '{LETTER}'",
    "last letter": f"add filter regex with regex_pattern: '{LETTER}', group_select: -1",
    "stop": r'add "\n" to until in generation_kwargs',
    "limit": "raise max_gen_toks in generation_kwargs",
}
_OF_CSV = {
    "types": "datasets infers the types of CSV columns (007 becomes 7, 4.90 becomes "
    "4.9, an empty cell None), as in lm-eval: store the rows as JSON lines, with quotes"
}
_OF_EXACT_MATCH = {
    "case": "set ignore_case: true on exact_match",
    "punctuation": "set ignore_punctuation: true on exact_match",
}


def load_tasks(path: Path, options: TaskOptions) -> tuple[Task | Group, ...]:
    """Load the task or group of a file, if the options select it. Raises TaskFileError
    with all problems of the file. Raises OptionError if a generation argument of the
    command line is invalid."""
    file = read_with_includes(path)
    options = _with_variant(file, options)
    if "group" in file.values and "class" not in file.values:
        if not options.takes([str(file.values["group"])]):
            return ()
        from pytest_evals.dialects.lm_eval.group import read_group

        return (read_group(file, options, partial(_task, options=options)),)
    names = [str(file.values.get("task")), *tags_of(file.values.get("tag"))]
    if not options.takes(names):
        return ()
    return (_task(file, options=options),)


def _with_variant(file: YamlFile, options: TaskOptions) -> TaskOptions:
    """The options with the number of few-shot examples that ``--evals-tasks`` sets."""
    values = file.values
    names = [str(values.get("group", "")), str(values.get("task"))]
    variants = options.variants([*names, *tags_of(values.get("tag"))])
    if any(one.arguments for one in variants) or len(variants) > 1:
        listed = ", ".join(f"{str(one)!r}" for one in variants)
        message = f"--evals-tasks selects this task as {listed}"
        fix = "select a task of a YAML file with one number of few-shot examples, "
        fix += "as in NAME|5"
        raise TaskFileError([Problem(message, Place(path=file.path), fix)])
    shots = variants[0].shots
    return options if shots is None else replace(options, num_fewshot=shots)


def tags_of(given: Any) -> tuple[str, ...]:
    """Tags as a tuple; values that are not strings are dropped."""
    listed = given if isinstance(given, list) else [given]
    return tuple(tag for tag in listed if isinstance(tag, str) and tag)


def _task(file: YamlFile, group: str = "", *, options: TaskOptions) -> Task:
    """Build a task; if a ``group`` defines it, its name is ``group::name``."""
    problems: list[Problem] = []
    file = _resolve_functions(file, problems, options.function_roots)
    top = Section(file, problems)
    name = _name(top, group)
    alias = top.text("task_alias")
    tags = _tags(top)
    if "class" in file.values:
        from pytest_evals.dialects.lm_eval.python.task import python_task

        return replace(python_task(top, name, options), alias=alias, tags=tags)
    # Keys that have no effect in lm-eval either.
    top.raw("task_list")
    top.flag("should_decontaminate")
    top.raw("doc_to_decontamination_query")
    _reject_misplaced_keys(top)
    _check_unsafe_code(top, options)
    metadata = metadata_of(top, options.metadata)
    recipe, warnings = read_recipe(top, name, metadata, options)
    choices, refusals = choices_of(top, metadata), refusals_of(top, metadata)
    scoring = read_scoring(top, recipe.output_type, recipe.repeats, options)
    gates = own_gates(top, name, metadata)
    top.close("a task file", GATE_FIXES)
    if problems:
        raise TaskFileError(dict.fromkeys(problems))
    scorer = scoring.scorer
    recipe = replace(
        recipe,
        generates_choices=is_generated(options, choices),
        metrics=tuple(s.name for s in scorer.metrics if s.task_metric is None),
        unconditioned_query=scorer.unconditioned_query,
        own_scoring=scorer.process_results is not None,
    )
    documents = Documents(recipe)
    early_warnings = (
        *file.warnings,
        *warnings,
        *scoring.warnings,
        *metadata_warnings(top),
        *_repeats_warning(top, scorer, gates),
    )
    version = metadata.get("version")
    return Task(
        name=name,
        source=top.place("task"),
        rows=documents,
        ask=documents.ask,
        follow_up=scorer.follow_up if scorer.judges else None,
        models=scorer.judges,
        score=scorer,
        metrics=scoring.metrics,
        metric_for=scorer.metric_for,
        score_repeats=Repeats(scorer) if scorer.repeats > 1 else None,
        gates=gates,
        row_lines=row_lines(recipe),
        output_type=recipe.output_type,
        shows_images=recipe.images is not None,
        alias=alias,
        tags=tags,
        version=version if isinstance(version, str | int | float) else None,
        n_shots=recipe.shots.n,
        repeats=recipe.repeats,
        refusals=refusals,
        reasoning_tags=options.reasoning_tags,
        config={
            **_config({**top.values, "task": name}, recipe, metadata),
            **({CHOICES: choices} if choices else {}),
            **({REFUSALS: refusals} if REFUSALS in metadata else {}),
        },
        remedies=remedies(scoring.metrics, str(top.values.get("dataset_path"))),
        warnings=lambda: (*early_warnings, *documents.warnings, *scorer.warnings),
    )


def _repeats_warning(
    top: Section, scorer: Scorer, gates: Sequence[Gate]
) -> Iterator[str]:
    """Warn if only the first of several answers is scored."""
    uses_all = any(one.task_metric is not None for one in scorer.metrics)
    uses_all = uses_all or any(one.reducer or one.every for one in gates)
    if scorer.repeats > 1 and scorer.pipelines == (TAKE_FIRST,) and not uses_all:
        yield (
            f"{top.place('repeats')}: repeats: {scorer.repeats} without a filter_list: "
            "metrics score the first answer only, as in lm-eval; add a filter such as "
            "majority_vote, or a reducer to a gate"
        )


def _name(top: Section, group: str) -> str:
    name = top.text("task")
    if "task" not in top or top.values["task"] is None or top.values["task"] == "":
        top.problem("task", "the task file has no task name", "task: my_task")
    elif not is_node_name(name):
        message = "task: a name must not contain '::', '[', ']' or control characters: "
        message += f"{name!r}"
        top.problem("task", message)
    return f"{group}::{name}" if group else name


def _tags(top: Section) -> tuple[str, ...]:
    given = top.take("tag", (str, list), "")
    if isinstance(given, list) and len(tags_of(given)) < len(given):
        top.problem("tag", "tag must be a string or a list of strings")
    return tags_of(given)


_DATASET_ARGUMENTS = ("cache_dir", "data_dir", "data_files", "revision")
"""Arguments of ``datasets.load_dataset`` that are often mistaken for keys."""
_NEWER_KEYS = {
    "multiple_inputs": (
        "a task has several inputs if doc_to_text returns the index of the correct one "
        "for the first document and doc_to_choice lists them"
    ),
    "multiple_targets": (
        "a task has several targets if doc_to_target returns a list for the first "
        "document"
    ),
}
"""Keys of releases after 0.4.13, and the equivalent rule of 0.4.13."""


def _reject_misplaced_keys(top: Section) -> None:
    for key, value in top.values.items():
        if isinstance(value, str) and value.startswith("!function "):
            message = f"{key} is text, because it is quoted, and not a function"
            top.problem(key, message, f"remove the quotes: {key}: {value}")
        if key in _DATASET_ARGUMENTS:
            top.raw(key)
            message = f"{key} is a dataset argument, not a key of a task file"
            top.problem(key, message, f"move {key} to dataset_kwargs")
        if key in _NEWER_KEYS:
            top.raw(key)
            message = (
                f"{key} is newer than lm-eval 0.4.13; in 0.4.13, {_NEWER_KEYS[key]}"
            )
            top.problem(key, message, "remove it")


def _check_unsafe_code(top: Section, options: TaskOptions) -> None:
    from pytest_evals.dialects.lm_eval.code_execution import uses_sandbox_only

    if not top.flag("unsafe_code"):
        return
    allowed, fix = options.allow_unsafe_code, CONSENT
    if uses_sandbox_only(top.values):
        sandbox = current_sandbox()
        allowed, fix = sandbox.may_run(consents=allowed), sandbox.remedy
    if not allowed:
        message = "unsafe_code: this task executes model output"
        top.problem("unsafe_code", message, fix)


_FUNCTION_KEYS = (
    "custom_dataset", "doc_to_text", "doc_to_target", "doc_to_choice", "process_docs",
    "process_results",
)  # fmt: skip
"""Keys whose ``!function`` must be callable."""


def _resolve_functions(
    file: YamlFile, problems: list[Problem], roots: Sequence[str] | None
) -> YamlFile:
    def resolved(value: Any, key: Any = None) -> Any:
        if isinstance(value, FunctionRef):
            return _function(value, problems, key, roots)
        if isinstance(value, dict):
            return {k: resolved(item, k) for k, item in value.items()}
        if isinstance(value, list):
            return [resolved(item) for item in value]
        return value

    return replace(file, values=resolved(file.values))


def _function(
    ref: FunctionRef, problems: list[Problem], key: Any, roots: Sequence[str] | None
) -> Any:
    value = unresolved_function
    with collecting(problems, ref.place):
        value = resolve(ref, roots)
    listed = key == "doc_to_choice" and isinstance(value, list | dict)
    if key in _FUNCTION_KEYS and not callable(value) and not listed:
        kind = type(value).__name__
        message = f"{key}: {ref.dotted} must be a function, not a value of type {kind}"
        problems.append(Problem(message, ref.place))
        return unresolved_function
    return value


def _config(
    values: Mapping[str, Any], recipe: Recipe, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """The configuration for results files, without secrets."""
    known = {
        **values,
        "unsafe_code": bool(values.get("unsafe_code")),
        "description": values.get("description") or "",
        "target_delimiter": recipe.fields.target_delimiter,
        "fewshot_delimiter": recipe.fields.fewshot_delimiter,
        "fewshot_config": _fewshot_config(values, recipe),
        "num_fewshot": recipe.shots.n,
        "output_type": recipe.output_type,
        "repeats": recipe.repeats,
        "should_decontaminate": bool(values.get("should_decontaminate")),
        "metadata": without_own(metadata) or None,
    }
    if recipe.output_type == "generate_until":
        known["generation_kwargs"] = _generation(values, recipe)
    config = {k: as_json(known[k]) for k in TASK_KEYS if known.get(k) is not None}
    return masked(config)


def _fewshot_config(values: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    shots, fields = recipe.shots, recipe.shots.fields
    typed = values.get("fewshot_config") or {}
    return {
        "sampler": shots.sampler,
        "split": recipe.splits.fewshot,
        "process_docs": shots.process_docs and shots.process_docs.spec,
        "fewshot_indices": typed.get("fewshot_indices"),
        "samples": shots.samples,
        "doc_to_text": fields.text.spec,
        "doc_to_choice": fields.choices and fields.choices.spec,
        "doc_to_target": fields.target.spec,
        "gen_prefix": fields.prefix and fields.prefix.spec,
        "fewshot_delimiter": fields.fewshot_delimiter,
        "target_delimiter": fields.target_delimiter,
    }


def _generation(values: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Generation arguments of the file, with lm-eval's defaults and the overrides of
    the command line."""
    arguments = values.get("generation_kwargs")
    typed = dict(GREEDY if arguments is None else arguments)
    if typed.get("temperature") is not None:
        typed["temperature"] = float(typed["temperature"])
    typed.setdefault("until", [recipe.fields.fewshot_delimiter])
    return {**typed, **recipe.options.gen_kwargs}


def remedies(metrics: Iterable[Metric], dataset: str = "") -> Mapping[str, str]:
    """Return the change of the task file for each cause of wrong answers. ``dataset``:
    its ``dataset_path``."""
    has_exact_match = any(metric.name == "exact_match" for metric in metrics)
    of_reader = _OF_CSV if dataset == "csv" else {}
    return _REMEDIES | of_reader | (_OF_EXACT_MATCH if has_exact_match else {})
