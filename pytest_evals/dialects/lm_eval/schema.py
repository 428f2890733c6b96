"""A JSON Schema of lm-eval's task and group files with gates, for editors.

Built from the parser's tables, so it lists all registered names. It covers one file
only; included files, data and modules are checked at collection. The text is in
``task.schema.json`` next to this module; ``python -m
pytest_evals.dialects.lm_eval.schema`` prints it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.gates_section.schema import described, gate_schema
from pytest_evals.dialects.lm_eval.prompts.question import BUILDERS
from pytest_evals.prompts.fewshot import SAMPLERS
from pytest_evals.scorers.aggregations import AGGREGATIONS
from pytest_evals.scorers.filters import FILTERS
from pytest_evals.scorers.metrics import METRICS

Schema = dict[str, Any]

_TEXT: Schema = {"type": ["string", "null"]}
_SWITCH: Schema = {"type": ["boolean", "null"]}
_MAPPING: Schema = {"type": ["object", "null"]}
_FUNCTION: Schema = {
    "type": ["string", "null"],
    "description": "A Python object: !function module.name",
    "$comment": "function",
}
_LIST_OF_TEXT: Schema = {
    "anyOf": [_TEXT, {"type": "array", "items": {"type": "string"}}]
}
_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}
_TAGGED = {"type": "string", "pattern": r"^(!function )?[\w.]+\.\w+$"}
"""A ``!function`` tag as editors parse it."""


def schema() -> Schema:
    """The schema of a file: a group if it has the key ``group``, else a task."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A task or a group of pytest-model-evals, in lm-eval's dialect",
        "type": "object",
        "if": {"required": ["group"]},
        "then": {"$ref": "#/$defs/group"},
        "else": {"$ref": "#/$defs/task"},
        "$defs": {
            "task": {
                "type": "object",
                "required": ["task"],
                "properties": _task_keys(),
                "additionalProperties": False,
            },
            "group": {
                "type": "object",
                "required": ["group"],
                "properties": {**_task_keys(), **_group_keys()},
                "additionalProperties": False,
            },
            "gate": gate_schema(),
        },
    }


def schema_text() -> str:
    """The schema as text, identical to the file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _task_keys() -> Schema:
    keys = {
        "task": ({"type": "string"}, "Name, unique in a session."),
        "task_alias": (_TEXT, "Name in tables."),
        "tag": (_LIST_OF_TEXT, "Names for selection with --evals-tasks and -m."),
        "include": (_LIST_OF_TEXT, "Files whose keys are included."),
        "class": (_FUNCTION, "A task that is a Python class: !function module.Name"),
        "dataset_path": (
            _TEXT,
            "A dataset of the Hub, a folder, or json, csv, parquet or arrow.",
        ),
        "dataset_name": (_TEXT, "Configuration of the dataset."),
        "dataset_kwargs": (_MAPPING, "Further arguments: data_files, data_dir, …"),
        "custom_dataset": (_FUNCTION, "Returns a mapping from split to rows."),
        "training_split": (_TEXT, "A source of few-shot examples."),
        "validation_split": (_TEXT, "The documents if test_split is not set."),
        "test_split": (_TEXT, "The documents."),
        "fewshot_split": (_TEXT, "The split of the few-shot examples."),
        "process_docs": (_FUNCTION, "Transforms the rows of each split."),
        "use_prompt": (_TEXT, "promptsource:NAME, FILE.yaml:NAME or qa-basic:NAME."),
        "description": (_TEXT, "Text before each prompt."),
        "num_fewshot": (
            _COUNT,
            "Number of few-shot examples. 0 overrides --evals-num-fewshot.",
        ),
        "fewshot_config": (_shots(), "Selection and formatting of few-shot examples."),
        "output_type": (_word(BUILDERS), "Kind of requests."),
        "generation_kwargs": (_MAPPING, "until, max_gen_toks, temperature, …"),
        "repeats": (
            {"type": ["integer", "null"], "minimum": 1, "maximum": MOST_REPEATS},
            "Number of answers to each request.",
        ),
        "filter_list": (_filters(), "Filter pipelines that extract answers."),
        "metric_list": (_metrics(), "Metrics to compute."),
        "process_results": (_FUNCTION, "Maps (row, responses) to {metric: value}."),
        "metadata": (
            {},
            "version, num_fewshot, gates, choices, refusals and identical_prompts are "
            "read.",
        ),
        "gates": (_gates(), "Conditions that must hold."),
        "unsafe_code": (_SWITCH, "Whether the task executes model output."),
        "should_decontaminate": (_SWITCH, "No effect, as in lm-eval."),
        "doc_to_decontamination_query": (_TEXT, "No effect, as in lm-eval."),
        "task_list": ({}, "No effect, as in lm-eval."),
        **_fields(),
    }
    return {key: described(one, text) for key, (one, text) in keys.items()}


def _fields() -> dict[str, tuple[Schema, str]]:
    """The keys that build a prompt, for documents and few-shot examples."""
    number = {"type": ["string", "integer", "null"]}
    anything = {"type": ["string", "integer", "array", "null"]}
    many = {"type": ["string", "array", "object", "null"]}
    return {
        "doc_to_text": (number, "The question: a column, a template or a function."),
        "doc_to_target": (
            anything,
            "The correct answer, or its index among the choices.",
        ),
        "doc_to_choice": (many, "The choices."),
        "doc_to_image": (
            {"type": ["string", "array", "null"]},
            "The images: a column, a template, a function or a list.",
        ),
        "doc_to_audio": ({"type": ["string", "array", "null"]}, "Not supported."),
        "gen_prefix": (_TEXT, "Beginning of the answer."),
        "target_delimiter": (_TEXT, "Text between question and answer."),
        "fewshot_delimiter": (
            _TEXT,
            "Text after each few-shot example; the default stop string.",
        ),
    }


def _shots() -> Schema:
    fields = _fields()
    for key in ("doc_to_image", "doc_to_audio"):
        del fields[key]
    rows = {"type": ["array", "string", "null"]}
    entries: dict[str, tuple[Schema, str]] = {
        "sampler": (_word(SAMPLERS, or_function=True), "Sampler of few-shot examples."),
        "split": (_TEXT, "The split of the few-shot examples."),
        "process_docs": (_FUNCTION, "Transforms the rows of few-shot examples."),
        "samples": (rows, "Rows of few-shot examples: a list or a function."),
        "fewshot_indices": ({"type": ["array", "null"]}, "No effect, as in lm-eval."),
        **fields,
    }
    keys = {key: described(one, text) for key, (one, text) in entries.items()}
    return {
        "type": ["object", "null"],
        "properties": keys,
        "additionalProperties": False,
    }


def _filters() -> Schema:
    step = {
        "type": "object",
        "required": ["function"],
        "properties": {"function": _offered(FILTERS)},
    }
    pipeline = {
        "type": "object",
        "required": ["name", "filter"],
        "properties": {
            "name": {"type": ["string", "number"]},
            "filter": {"type": "array", "items": step},
        },
    }
    return {"type": ["array", "null"], "items": pipeline, "minItems": 1}


def _metrics() -> Schema:
    entry = {
        "type": "object",
        "required": ["metric"],
        "properties": {
            "metric": described(_offered(METRICS), "Its name or a function."),
            "aggregation": described(
                _word(AGGREGATIONS, or_function=True),
                "Aggregation of the documents' values.",
            ),
            "higher_is_better": described(
                {"enum": [True, False, 1, 0, None]}, "Whether higher values are better."
            ),
            "hf_evaluate": described(
                _SWITCH, "Whether the metric is from the evaluate library."
            ),
        },
    }
    return {"type": ["array", "null"], "items": entry}


def _group_keys() -> Schema:
    member = {"type": ["string", "object"]}
    average = {
        "type": "object",
        "required": ["metric"],
        "properties": {
            "metric": {"type": "string"},
            "aggregation": {"enum": ["mean", None]},
            "weight_by_size": _SWITCH,
            "higher_is_better": {"enum": [True, False, 1, 0, None]},
            "filter_list": _LIST_OF_TEXT,
        },
    }
    return {
        "group": described({"type": "string"}, "Name, unique among tasks and groups."),
        "group_alias": described(_TEXT, "Name in tables."),
        "task": {
            "description": "The members: names of tasks, groups and tags, or mappings.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": member}],
        },
        "aggregate_metric_list": {
            "description": (
                "The group's aggregated metrics; without it, the group is only a "
                "heading."
            ),
            "anyOf": [{"type": ["array", "null"], "items": average}, average],
        },
    }


def _gates() -> Schema:
    return {"type": ["array", "null"], "items": {"$ref": "#/$defs/gate"}}


def _word(known: Iterable[str], *, or_function: bool = False) -> Schema:
    """One of the registered names."""
    names: Schema = {"enum": [*sorted(known), None]}
    return {"anyOf": [names, _TAGGED]} if or_function else names


def _offered(known: Iterable[str]) -> Schema:
    """Any name; modules and hooks may register more than the listed ones."""
    return {"anyOf": [{"enum": sorted(known)}, {"type": "string"}]}


if __name__ == "__main__":
    sys.stdout.write(schema_text())
