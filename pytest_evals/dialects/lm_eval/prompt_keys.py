"""Keys for rows, prompts and answers of a task file → a recipe.

Semantics and defaults equal lm-eval 0.4.13, ``config/task.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pytest_evals.core.task import MOST_REPEATS, TaskOptions
from pytest_evals.data.source_paths import Source
from pytest_evals.dialects.lm_eval.collection import Prompt, read_prompt
from pytest_evals.dialects.lm_eval.prompts.question import BUILDERS
from pytest_evals.dialects.lm_eval.prompts.recipe import Fields, Recipe, Shots, Splits
from pytest_evals.dialects.metadata_keys import without_own
from pytest_evals.dialects.yaml_reader.section import Section
from pytest_evals.errors import EvalsError, Problem
from pytest_evals.prompts.document_warnings import are_allowed
from pytest_evals.prompts.fewshot import SAMPLERS
from pytest_evals.prompts.fields import Field, compile_template, template_warnings
from pytest_evals.prompts.generation import (
    Sampling,
    argument_errors,
    check_overrides,
    read_sampling,
)

_TEXT_KINDS = (str, int, Callable)
_TARGET_KINDS = (str, int, list, Callable)
_CHOICE_KINDS = (str, list, dict, Callable)
_MEDIA_KINDS = (str, list, Callable)


def read_recipe(
    top: Section, name: str, metadata: dict[str, Any], options: TaskOptions
) -> tuple[Recipe, list[str]]:
    """Read the recipe of a task file, and warnings; errors go to the section's
    problems. Raises OptionError for an invalid argument of the command line."""
    warnings: list[str] = []
    output_type = top.one_of(
        "output_type", "output_type", sorted(BUILDERS), "generate_until"
    )
    prompt = read_prompt(top, _base_folder(options))
    fields = _fields(top, output_type, prompt)
    for one in (fields.text, fields.target, fields.choices):
        warnings += template_warnings(one) if one is not None else ()
    process_docs = _function_field(top, "process_docs")
    description = _field(top, "description", (str,))
    shots, split = _shots(top, fields, process_docs, options, warnings)
    if prompt is not None:
        shots = replace(shots, fields=prompt.apply_to(shots.fields))
    recipe = Recipe(
        name=name,
        output_type=output_type,
        place=top.place("task"),
        source=_source(top, metadata, options),
        splits=_splits(top, split),
        process_docs=process_docs,
        fields=fields,
        description=description if description and description.spec else None,
        images=_images(top, output_type),
        sound=_field(top, "doc_to_audio", _MEDIA_KINDS),
        shots=shots,
        sampling=_sampling(top, output_type, options, warnings),
        repeats=top.whole("repeats", 1, 1, MOST_REPEATS),
        may_be_identical=are_allowed(metadata),
        options=options,
    )
    return recipe, warnings


def _source(top: Section, metadata: dict[str, Any], options: TaskOptions) -> Source:
    maker = top.function("custom_dataset")
    path = top.text("dataset_path")
    arguments = dict(top.take("dataset_kwargs", dict, {}))
    key = "custom_dataset" if maker is not None else "dataset_path"
    if not path and maker is None and top.values.get("custom_dataset") is None:
        fix = "dataset_path: json, with dataset_kwargs: {data_files: {test: my.jsonl}}"
        message = "the task has no dataset_path"
        top.problem("task", message, fix, required=("dataset_path",))
    if maker is not None:
        known = {**metadata, **options.model_arguments, **options.metadata}
        known = without_own(known)
        for twice in known.keys() & arguments.keys():
            message = f"{twice!r} is set in both dataset_kwargs and metadata"
            top.problem("dataset_kwargs", message, "remove one of them")
        arguments = {**known, **arguments}
    return Source(
        path=path,
        name=top.name("dataset_name"),
        arguments=arguments,
        maker=maker,
        place=top.place(key),
        data_place=top.place("dataset_kwargs" if "dataset_kwargs" in top else key),
        base=_base_folder(options),
    )


def _base_folder(options: TaskOptions) -> Path:
    return Path(options.base) if options.base else Path.cwd()


def _splits(top: Section, fewshot: str | None) -> Splits:
    keys = ("training_split", "validation_split", "test_split", "fewshot_split")
    training, validation, test, _ = (top.name(key) for key in keys)
    if test is None and validation is None:
        message = "the task has neither a test_split nor a validation_split"
        top.problem("task", message, "test_split: test", required=keys[1:3])
    places = {key: top.place(key) for key in keys}
    config = top.values.get("fewshot_config")
    if isinstance(config, dict) and "split" in config:
        places["fewshot_split"] = top.file.place("fewshot_config", "split")
    return Splits(
        training=training,
        validation=validation,
        test=test,
        fewshot=fewshot,
        places=places,
    )


def _fields(top: Section, output_type: str, prompt: Prompt | None) -> Fields:
    nothing = Field(key="doc_to_text", spec="", place=top.place("doc_to_text"))
    fields = _fields_in(top, Fields(text=nothing, target=nothing))
    if prompt is not None:
        known = fields.choices is not None or output_type == "multiple_choice"
        choices = prompt.choices if known else None
        fields = replace(
            fields, text=prompt.text, target=prompt.target, choices=choices
        )
    # A value of a wrong type has its own problem.
    needed = {"doc_to_text": fields.text, "doc_to_target": fields.target}
    for key, field in needed.items():
        is_absent = field is nothing and top.values.get(key) is None
        is_rolling = output_type == "loglikelihood_rolling" and key == "doc_to_text"
        if is_absent and not is_rolling:
            message, fix = f"the task has no {key}", _EXAMPLES[key]
            top.problem("task", message, fix, required=(key,))
    has_choices = fields.choices is not None and fields.choices.spec
    if output_type == "multiple_choice" and not has_choices:
        fix = 'doc_to_choice: ["yes", "no"]'
        key = "doc_to_choice" if "doc_to_choice" in top else "output_type"
        message = "multiple_choice needs doc_to_choice"
        top.problem(key, message, fix, required=("doc_to_choice",))
    return fields


_EXAMPLES = {
    "doc_to_text": 'doc_to_text: "{{question}}"',
    "doc_to_target": "doc_to_target: answer",
}


def _fields_in(section: Section, known: Fields, owner: str = "") -> Fields:
    """The fields that a section sets, the others as known. ``null`` removes choices and
    prefix, and has no effect for other keys."""
    choices = _field(section, "doc_to_choice", _CHOICE_KINDS, owner)
    prefix = _field(section, "gen_prefix", (str,), owner)
    return Fields(
        text=_field(section, "doc_to_text", _TEXT_KINDS, owner) or known.text,
        target=_field(section, "doc_to_target", _TARGET_KINDS, owner) or known.target,
        choices=choices if "doc_to_choice" in section else known.choices,
        prefix=prefix if "gen_prefix" in section else known.prefix,
        target_delimiter=section.text("target_delimiter", known.target_delimiter),
        fewshot_delimiter=section.text("fewshot_delimiter", known.fewshot_delimiter),
    )


def _field(section: Section, key: str, kinds: Any, owner: str = "") -> Field | None:
    value = section.raw(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, kinds):
        section.wrong(key, value, kinds)
        return None
    if isinstance(value, str):
        try:
            compile_template(value)
        except EvalsError as error:
            section.problem(key, f"{owner}{key} is not a valid template: {error}")
    return Field(key=f"{owner}{key}", spec=value, place=section.place(key))


def _function_field(section: Section, key: str, owner: str = "") -> Field | None:
    function = section.function(key)
    if function is None:
        return None
    return Field(key=f"{owner}{key}", spec=function, place=section.place(key))


def _images(top: Section, output_type: str) -> Field | None:
    field = _field(top, "doc_to_image", _MEDIA_KINDS)
    if field is not None and output_type == "loglikelihood_rolling":
        message = "doc_to_image: a text without a prompt has no images"
        top.problem("doc_to_image", message, "output_type: generate_until")
    return field


def _shots(
    top: Section,
    fields: Fields,
    process_docs: Field | None,
    options: TaskOptions,
    warnings: list[str],
) -> tuple[Shots, str | None]:
    """The few-shot examples, and the split that the task names for them."""
    n = top.whole("num_fewshot", 0, 0)
    if options.num_fewshot is not None and top.values.get("num_fewshot") != 0:
        n = options.num_fewshot
    split = top.name("fewshot_split")
    config = top.section("fewshot_config")
    keys = ("num_fewshot", "fewshot_split", "fewshot_config", "task")
    place = top.place(next((key for key in keys if key in top), "task"))
    shots = Shots(n=n, process_docs=process_docs, fields=fields, place=place)
    if config is None:
        return shots, split
    if "split" in config:
        split = config.name("split")
    samples = _samples(config)
    if samples is not None and split is not None:
        warnings.append("fewshot_config: split overrides samples, as in lm-eval")
    if config.raw("fewshot_indices") is not None:
        warnings.append("fewshot_config.fewshot_indices has no effect, as in lm-eval")
    if "process_docs" in config:
        process_docs = _function_field(config, "process_docs", "fewshot_config.")
    shots = replace(
        shots,
        sampler=_sampler(config),
        samples=samples,
        process_docs=process_docs,
        fields=_fields_in(config, fields, "fewshot_config."),
    )
    config.close("fewshot_config")
    return shots, split


def _sampler(config: Section) -> str | Callable[..., Any]:
    given = config.values.get("sampler")
    if callable(given):
        config.raw("sampler")
        return cast("Callable[..., Any]", given)
    return config.one_of("sampler", "sampler", list(SAMPLERS), "default")


def _samples(config: Section) -> Any:
    samples = config.raw("samples")
    if samples is None or callable(samples):
        return samples
    if isinstance(samples, list) and all(isinstance(row, dict) for row in samples):
        return samples
    message = "fewshot_config.samples must be a list of mappings or a function that "
    message += "returns one"
    config.problem("samples", message)
    return None


def _sampling(
    top: Section, output_type: str, options: TaskOptions, warnings: list[str]
) -> Sampling:
    key = "generation_kwargs"
    arguments = top.take(key, dict, {}) if top.values.get(key) is not None else None
    top.raw(key)
    if output_type != "generate_until":
        if arguments is not None:
            warnings.append(f"{key} has no effect with output_type {output_type}")
        return Sampling()
    delimiter = top.values.get("fewshot_delimiter")
    stop = delimiter if isinstance(delimiter, str) else "\n\n"
    faults = list(argument_errors(arguments or {}))
    for fault in faults:
        place = top.file.place(key, fault.key)
        top.problems.append(Problem(f"{key}: {fault.message}", place, fault.fix))
    if faults:
        return Sampling()
    try:
        read_sampling(arguments, {}, stop)
    except EvalsError as error:
        word = str(error).split(" ")[0].rstrip(":")
        place = top.file.place(key, word)
        top.problems.append(Problem(f"{key}: {error}", place))
        return Sampling()
    check_overrides(options.gen_kwargs)
    result = read_sampling(arguments, options.gen_kwargs, stop)
    warnings.extend(result.warnings)
    return result.sampling
