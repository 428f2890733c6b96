"""A JSON Schema of lm-eval's task and group files with our gates, for editors.

It is made of the tables that the front end reads by, so that a name which exists is
offered. It says what an editor can know from one file: what is in included files, in
the data and in modules is checked at collection. ``task.schema.json`` beside this
module is its text; ``python -m pytest_evals.dialects.lm_eval.schema`` prints it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_evals.dialects.lm_eval.prompts.question import BUILDERS
from pytest_evals.gates.read.keys import KEYS, MARGIN_KEYS
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
"""What an editor makes of a ``!function`` tag."""


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
            "gate": _gate(),
        },
    }


def schema_text() -> str:
    """The schema as the file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _task_keys() -> Schema:
    """Each key of a task."""
    told = {
        "task": ({"type": "string"}, "Name, unique in a session."),
        "task_alias": (_TEXT, "Name in tables."),
        "tag": (_LIST_OF_TEXT, "Names by which --evals-tasks and -m select it."),
        "include": (_LIST_OF_TEXT, "Files whose keys are taken over."),
        "class": (_FUNCTION, "A task that is a Python class: !function module.Name"),
        "dataset_path": (_TEXT, "Of the Hub, a folder; json, csv, parquet or arrow."),
        "dataset_name": (_TEXT, "Configuration of the dataset."),
        "dataset_kwargs": (_MAPPING, "Further arguments: data_files, data_dir, …"),
        "custom_dataset": (_FUNCTION, "Gives a mapping from split to rows."),
        "training_split": (_TEXT, "A pool of shots."),
        "validation_split": (_TEXT, "Asked if there is no test split."),
        "test_split": (_TEXT, "The documents."),
        "fewshot_split": (_TEXT, "Where shots come from."),
        "process_docs": (_FUNCTION, "Rows to rows, for each split."),
        "use_prompt": (_TEXT, "promptsource:NAME, FILE.yaml:NAME or qa-basic:NAME."),
        "description": (_TEXT, "In front of all prompts."),
        "num_fewshot": (_COUNT, "Shots. An explicit 0 beats --evals-num-fewshot."),
        "fewshot_config": (_shots(), "How shots are drawn and written."),
        "output_type": (_word(BUILDERS), "What is asked of the model."),
        "generation_kwargs": (_MAPPING, "until, max_gen_toks, temperature, …"),
        "repeats": (
            {"type": ["integer", "null"], "minimum": 1},
            "Answers asked for each request.",
        ),
        "filter_list": (_filters(), "Pipelines from answers to what is scored."),
        "metric_list": (_metrics(), "What is scored."),
        "process_results": (_FUNCTION, "(row, responses) to {metric: value}."),
        "metadata": (
            {},
            "version, num_fewshot, gates and identical_prompts are read.",
        ),
        "gates": (_gates(), "Claims that must hold."),
        "unsafe_code": (_SWITCH, "Whether it executes what the model writes."),
        "should_decontaminate": (_SWITCH, "No effect, as in lm-eval."),
        "doc_to_decontamination_query": (_TEXT, "No effect, as in lm-eval."),
        "task_list": ({}, "No effect, as in lm-eval."),
        **_fields(),
    }
    return {key: _described(one, text) for key, (one, text) in told.items()}


def _fields() -> dict[str, tuple[Schema, str]]:
    """The keys by which a row becomes a prompt; of tasks and of their shots."""
    number = {"type": ["string", "integer", "null"]}
    anything = {"type": ["string", "integer", "array", "null"]}
    many = {"type": ["string", "array", "object", "null"]}
    return {
        "doc_to_text": (number, "The question: a column, a template or a function."),
        "doc_to_target": (
            anything,
            "The right answer, or its place among the choices.",
        ),
        "doc_to_choice": (many, "The choices."),
        "doc_to_image": (
            {"type": ["string", "array", "null"]},
            "Its images: a column, a template, a function or a list.",
        ),
        "doc_to_audio": ({"type": ["string", "array", "null"]}, "Is refused."),
        "gen_prefix": (_TEXT, "How the answer begins."),
        "target_delimiter": (_TEXT, "Between question and answer."),
        "fewshot_delimiter": (_TEXT, "Behind each shot; the default stop string."),
    }


def _shots() -> Schema:
    fields = _fields()
    for key in ("doc_to_image", "doc_to_audio"):
        del fields[key]
    rows = {"type": ["array", "string", "null"]}
    told: dict[str, tuple[Schema, str]] = {
        "sampler": (_word(SAMPLERS, or_function=True), "How shots are drawn."),
        "split": (_TEXT, "Where shots come from."),
        "process_docs": (_FUNCTION, "Rows to rows, for the pool of shots."),
        "samples": (rows, "Shots as rows, in the file or of a function."),
        "fewshot_indices": ({"type": ["array", "null"]}, "No effect, as in lm-eval."),
        **fields,
    }
    keys = {key: _described(one, text) for key, (one, text) in told.items()}
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
            "metric": _described(_offered(METRICS), "Its name, or a function."),
            "aggregation": _described(
                _word(AGGREGATIONS, or_function=True), "How values add up."
            ),
            "higher_is_better": _described(
                {"enum": [True, False, 1, 0, None]}, "Which way is better."
            ),
            "hf_evaluate": _described(
                _SWITCH, "Whether it is one of the evaluate library."
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
        "group": _described({"type": "string"}, "Name, unique among tasks and groups."),
        "group_alias": _described(_TEXT, "Name in tables."),
        "task": {
            "description": "The members: names of tasks, groups and tags, or mappings.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": member}],
        },
        "aggregate_metric_list": {
            "description": "The group's numbers; without it, it is only a heading.",
            "anyOf": [{"type": ["array", "null"], "items": average}, average],
        },
    }


def _gates() -> Schema:
    return {"type": ["array", "null"], "items": {"$ref": "#/$defs/gate"}}


def _gate() -> Schema:
    """A gate as text, or as a mapping."""
    keys = {name: _described(key.schema, key.about) for name, key in KEYS.items()}
    margins = {key: KEYS[key].schema for key in MARGIN_KEYS}
    name = KEYS["baseline"].schema
    anchor = {
        "type": "object",
        "properties": {"baseline": name, **margins},
        "required": ["baseline"],
    }
    keys["anchor"] = _described(
        {"anyOf": [name, anchor]},
        "A second baseline: v1, or {baseline: v1, max_drop: 0.05}.",
    )
    short = {
        "type": "string",
        "description": "METRIC[,FILTER] >= NUMBER",
        "pattern": r"^[^<>=]+(>=|<=|>|<)\s*[-+]?[\d.][\d.eE+-]*\s*%?\s*$",
    }
    long = {"type": "object", "properties": keys, "additionalProperties": False}
    return {"anyOf": [short, long]}


def _word(known: Iterable[str], *, or_function: bool = False) -> Schema:
    """One of the known names, and no other."""
    names: Schema = {"enum": [*sorted(known), None]}
    return {"anyOf": [names, _TAGGED]} if or_function else names


def _offered(known: Iterable[str]) -> Schema:
    """Any name, since modules and hooks may register more; the known ones are
    offered."""
    return {"anyOf": [{"enum": sorted(known)}, {"type": "string"}]}


def _described(one: Mapping[str, Any], text: str) -> Schema:
    return {"description": text, **{k: v for k, v in one.items() if k != "description"}}


if __name__ == "__main__":
    sys.stdout.write(schema_text())
