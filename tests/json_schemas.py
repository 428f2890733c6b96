"""Write the JSON Schemas of task files, groups and evals, for editors::

    python tests/json_schemas.py

They are built from the tables of the readers, so they list all registered names. They
cover one file only; included files, data and modules are checked at collection.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from pytest_evals.core.reasoning import REFUSALS
from pytest_evals.core.task import MOST_REPEATS
from pytest_evals.dialects.lm_eval.prompts.question import BUILDERS
from pytest_evals.dialects.native.choices import WAYS
from pytest_evals.dialects.native.scorers import SCORERS
from pytest_evals.gates.read.keys import KEYS
from pytest_evals.prompts.fewshot import SAMPLERS
from pytest_evals.scorers.aggregations import AGGREGATIONS
from pytest_evals.scorers.filters import FILTERS
from pytest_evals.scorers.metrics import METRICS

DIALECTS = Path(__file__).parent.parent / "pytest_evals" / "dialects"
Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}


def gate_schema() -> Schema:
    """The schema of a gate: text, or a mapping."""
    keys = {name: described(key.schema, key.about) for name, key in KEYS.items()}
    short = {
        "type": "string",
        "description": "METRIC[,FILTER] >= NUMBER",
        "pattern": r"^[^<>=]+(>=|<=|>|<)\s*[-+]?[\d.][\d.eE+-]*\s*%?\s*$",
    }
    long = {"type": "object", "properties": keys, "additionalProperties": False}
    return {"anyOf": [short, long]}


def described(one: Mapping[str, Any], text: str) -> Schema:
    """A schema with another description."""
    return {"description": text, **{k: v for k, v in one.items() if k != "description"}}


_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_SERVER: Schema = {
    "type": "object",
    "properties": {
        "serve": {"type": "string"},
        "env": {"type": "object"},
        "ready": {"type": "string"},
        "timeout": {"type": "number"},
        "model": {"type": "string"},
        "args": {"type": "object"},
    },
    "required": ["serve"],
    "additionalProperties": False,
}
_SWITCH: Schema = {"type": ["boolean", "null"]}
_MAPPING: Schema = {"type": ["object", "null"]}
_FUNCTION: Schema = {
    "type": ["string", "null"],
    "description": "A Python object: !function module.name",
    "$comment": "function",
}
_LIST_OF_TEXT: Schema = {
    "anyOf": [_TEXT_OR_NULL, {"type": "array", "items": {"type": "string"}}]
}
_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}
_TAGGED = {"type": "string", "pattern": r"^(!function )?[\w.]+\.\w+$"}
"""A ``!function`` tag as editors parse it."""


def task_schema() -> Schema:
    """The schema of a file: a group if it has the key ``group``, else a task. A group
    may have the keys of a task, which its tasks get."""
    keys = _task_keys()
    of_task = {key: {"$ref": f"#/$defs/task/properties/{key}"} for key in keys}
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
                "properties": keys,
                "additionalProperties": False,
            },
            "group": {
                "type": "object",
                "required": ["group"],
                "properties": {**of_task, **_group_keys()},
                "additionalProperties": False,
            },
            "gate": gate_schema(),
        },
    }


def _task_keys() -> Schema:
    keys = {
        "task": ({"type": "string"}, "Name, unique in a session."),
        "task_alias": (_TEXT_OR_NULL, "Name in tables."),
        "tag": (_LIST_OF_TEXT, "Names for selection with --evals-tasks and -m."),
        "include": (_LIST_OF_TEXT, "Files whose keys are included."),
        "class": (_FUNCTION, "A task that is a Python class: !function module.Name"),
        "dataset_path": (
            _TEXT_OR_NULL,
            "A dataset of the Hub, a folder, or json, csv, parquet or arrow.",
        ),
        "dataset_name": (_TEXT_OR_NULL, "Configuration of the dataset."),
        "dataset_kwargs": (_MAPPING, "Further arguments: data_files, data_dir, …"),
        "custom_dataset": (_FUNCTION, "Returns a mapping from split to rows."),
        "training_split": (_TEXT_OR_NULL, "A source of few-shot examples."),
        "validation_split": (_TEXT_OR_NULL, "The documents if test_split is not set."),
        "test_split": (_TEXT_OR_NULL, "The documents."),
        "fewshot_split": (_TEXT_OR_NULL, "The split of the few-shot examples."),
        "process_docs": (_FUNCTION, "Transforms the rows of each split."),
        "use_prompt": (
            _TEXT_OR_NULL,
            "FILE.yaml:NAME or qa-basic:NAME.",
        ),
        "description": (_TEXT_OR_NULL, "Text before each prompt."),
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
        "doc_to_decontamination_query": (_TEXT_OR_NULL, "No effect, as in lm-eval."),
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
        "gen_prefix": (_TEXT_OR_NULL, "Beginning of the answer."),
        "target_delimiter": (_TEXT_OR_NULL, "Text between question and answer."),
        "fewshot_delimiter": (
            _TEXT_OR_NULL,
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
        "split": (_TEXT_OR_NULL, "The split of the few-shot examples."),
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
        "group_alias": described(_TEXT_OR_NULL, "Name in tables."),
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


_TYPES: dict[str, Schema] = {
    "bool": {"type": "boolean"},
    "float": {"type": "number"},
    "int": {"type": "integer"},
    "str": _TEXT,
    "Sequence[str]": {"type": "array", "items": _TEXT},
}
"""Annotation of a scorer's argument → schema; other arguments take any value."""
_PART: Schema = {
    "type": "object",
    "properties": {
        "type": {"enum": ["text", "image", "image_url"]},
        "text": _TEXT,
        "path": _TEXT,
        "detail": {"enum": ["auto", "low", "high"]},
        "image_url": {"anyOf": [_TEXT, {"type": "object"}]},
    },
    "required": ["type"],
    "additionalProperties": False,
}
"""A part of a message: text, a text file or an image."""
_MESSAGE: Schema = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "user", "assistant"]},
        "content": {"anyOf": [_TEXT, {"type": "array", "items": _PART, "minItems": 1}]},
    },
    "required": ["role", "content"],
    "additionalProperties": False,
}


_NATIVE = ("prompt", "variants", "score", "gates")
"""Keys of which an eval has at least one."""


def eval_schema() -> Schema:
    """The schema of a file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An eval of pytest-model-evals",
        "type": "object",
        "anyOf": [{"required": [one]} for one in _NATIVE],
        "oneOf": [{"required": ["rows"]}, {"required": ["dataset"]}],
        "properties": {key: described(one, text) for key, one, text in _eval_keys()},
        "additionalProperties": False,
        "$defs": {"gate": gate_schema(), "scorer": _scorer()},
    }


def _eval_keys() -> Iterator[tuple[str, Schema, str]]:
    """Each key of a file, its schema and its meaning."""
    texts = {"type": "array", "items": _TEXT}
    scorer = {"$ref": "#/$defs/scorer"}
    yield "task", _TEXT, "Name, unique in a session; by default the file's name."
    yield "description", _TEXT, "For readers; not sent to the model."
    prompt = {"anyOf": [_TEXT, {"type": "array", "items": _MESSAGE, "minItems": 1}]}
    about = "Template over the row's values, or the messages of a chat."
    yield "prompt", prompt, about
    yield (
        "variants",
        {
            "type": "object",
            "additionalProperties": {"$ref": "#/properties/prompt"},
            "minProperties": 1,
        },
        "Prompts side by side, by name, instead of prompt.",
    )
    turn = {"anyOf": [_TEXT, {"type": "object", "required": ["user"]}]}
    yield (
        "turns",
        {"anyOf": [_TEXT, {"type": "array", "items": turn, "minItems": 1}]},
        "The user's messages of a conversation, instead of a prompt: a column, a "
        "template of a list, or texts that are templates.",
    )
    yield "system", _TEXT, "System message before each prompt."
    yield (
        "rows",
        {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "The cases: mappings of names to values.",
    )
    yield (
        "dataset",
        {
            "anyOf": [
                _TEXT,
                {
                    "type": "object",
                    "properties": {
                        "path": _TEXT,
                        "name": _TEXT,
                        "split": _TEXT,
                        "revision": _TEXT,
                    },
                    "required": ["path"],
                    "additionalProperties": False,
                },
            ]
        },
        "A JSON, CSV, Parquet or Arrow file, or a dataset of the Hugging Face Hub.",
    )
    yield "id", _TEXT, "Column with the cases' ids."
    yield "target", {}, "Template or column; by default the column target."
    yield (
        "choices",
        {"anyOf": [_TEXT, {"type": "array", "minItems": 2}]},
        "Template, column or list: the target is the text, the letter or the index of "
        "one.",
    )
    ways = {"enum": [*WAYS]}
    yield "choices_by", ways, "How choices are answered. Default: loglikelihood."
    yield (
        "score",
        {"anyOf": [scorer, {"type": "array", "items": scorer, "minItems": 1}]},
        "Scorers. The first decides whether a case is correct. Default: exact.",
    )
    yield (
        "generation",
        {"type": "object"},
        "max_tokens, temperature, stop, top_p and other sampling options.",
    )
    repeats = {"type": "integer", "minimum": 1, "maximum": MOST_REPEATS}
    yield "repeats", repeats, "Answers to each prompt."
    ways = {"enum": [*REFUSALS]}
    yield "refusals", ways, "What a refusal of the model is. Default: error."
    part = {"enum": ["regex", "json", "xml", "after"]}
    step = {"type": "object", "propertyNames": part, "maxProperties": 1}
    yield (
        "extract",
        {"anyOf": [step, {"type": "array", "items": step}]},
        'The part of answers that is scored: {after: "Answer:"}, {regex: …}, '
        "{json: $.answer} or {xml: answer}.",
    )
    yield (
        "tools",
        {"anyOf": [_TEXT, {"type": "array", "items": {"type": "object"}}]},
        "Tools that a chat server is sent, as OpenAI's parameter of that name; or a "
        "template of them, such as {{tools}}.",
    )
    yield (
        "traces",
        {"type": "boolean"},
        "Whether calls, usage and contexts are read from the application's "
        "OpenTelemetry spans. Default: false.",
    )
    yield (
        "user",
        {
            "type": "object",
            "properties": {
                **dict.fromkeys(("goal", "persona", "model", "stop"), _TEXT),
                **{key: {"type": "integer"} for key in ("max_turns", "max_tokens")},
                "seed": {"type": "integer"},
                "temperature": {"type": "number"},
            },
            "required": ["model"],
            "additionalProperties": False,
        },
        "A second model that writes the user's messages: goal, persona, model, "
        "max_turns, stop.",
    )
    yield (
        "model",
        {"anyOf": [_TEXT, _SERVER]},
        "Spec of the model if the session has no --model; or a server to start.",
    )
    yield (
        "gates",
        {"type": "array", "items": {"$ref": "#/$defs/gate"}},
        "Conditions that metrics must meet.",
    )
    yield "tags", {"anyOf": [_TEXT, texts]}, "Names for --evals-tasks and -m."
    yield "version", {"type": ["string", "number"]}, "Version of the eval."
    yield "metadata", {"type": "object"}, "Kept in results files."


def _scorer() -> Schema:
    """A name, or a name with arguments."""
    named = {
        name: {"anyOf": [_bare(make, bare), _arguments(make)]}
        if bare
        else _arguments(make)
        for name, (make, bare) in SCORERS.items()
    }
    return {
        "anyOf": [
            {"enum": [*SCORERS]},
            {
                "type": "object",
                "properties": {**named, "not": {"$ref": "#/$defs/scorer"}},
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }


def _bare(make: Callable[..., Any], argument: str) -> Schema:
    return _type(str(signature(make).parameters[argument].annotation))


def _arguments(make: Callable[..., Any]) -> Schema:
    parameters = signature(make).parameters
    return {
        "type": ["object", "null"],
        "properties": {
            name: _type(str(one.annotation)) for name, one in parameters.items()
        },
        "additionalProperties": False,
    }


def _type(annotation: str) -> Schema:
    parts = [one.strip() for one in annotation.split("|")]
    known = [_TYPES[one] for one in parts if one in _TYPES]
    return dict(known[0]) if len(known) == 1 and {*parts} <= {*_TYPES, "None"} else {}


FILES = {
    DIALECTS / "lm_eval" / "task.schema.json": task_schema,
    DIALECTS / "native" / "eval.schema.json": eval_schema,
}
"""File → its schema."""


def text_of(schema: Schema) -> str:
    """Return the text of a file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, make in FILES.items():
        path.write_text(text_of(make()), encoding="utf-8")
