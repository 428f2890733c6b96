"""Which dialect a file is, and what a file in none of them looks like.

:func:`dialect_of` runs on every file that pytest visits, so it searches raw bytes,
parses nothing and needs the standard library only. Only keys at the start of a line
count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pytest_evals.errors import nearest

YAML_SUFFIXES = (".yaml", ".yml")
GATES_FILES = ("gates.yaml", "gates.yml")
"""Names of files with gates next to a suite."""
OWN_KEYS = (
    "aggregate_metric_list",
    "custom_dataset",
    "doc_to_choice",
    "doc_to_target",
    "doc_to_text",
    "fewshot_split",
    "metric_list",
    "process_docs",
    "process_results",
)
"""Keys of lm-eval's files that hardly any other file has."""
COMMON_KEYS = (
    "dataset_kwargs",
    "dataset_name",
    "dataset_path",
    "filter_list",
    "gates",
    "generation_kwargs",
    "group",
    "group_alias",
    "include",
    "num_fewshot",
    "output_type",
    "task",
    "task_alias",
    "test_split",
    "training_split",
    "validation_split",
)
"""Keys of lm-eval's files that other files have too."""
TASK_KEYS = (
    "task", "task_alias", "tag", "custom_dataset", "dataset_path", "dataset_name",
    "dataset_kwargs", "training_split", "validation_split", "test_split",
    "fewshot_split", "process_docs", "doc_to_text", "doc_to_target", "doc_to_image",
    "doc_to_audio", "unsafe_code", "doc_to_choice", "process_results",
    "use_prompt", "description", "target_delimiter",
    "fewshot_delimiter", "fewshot_config", "num_fewshot", "metric_list", "output_type",
    "generation_kwargs", "repeats", "filter_list", "should_decontaminate",
    "doc_to_decontamination_query", "gen_prefix", "metadata",
)  # fmt: skip
"""The keys of a task, in the order of results files."""

_LARGEST = 4 * 1024 * 1024
"""Bytes; a file beyond this is data, not a task."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TASK = re.compile(rb"""^(["']?)task\1[ \t]*:[ \t]+[^\s#\[{|>]""", re.MULTILINE)
"""``task`` with a name on the same line; a job of a build file has a mapping there."""
_TASK_PART = re.compile(
    rb"""^(["']?)(?:dataset_path|custom_dataset|include|output_type|class)\1[ \t]*:""",
    re.MULTILINE,
)
_GROUP = re.compile(rb"""^(["']?)group\1[ \t]*:[ \t]+[^\s#\[{|>]""", re.MULTILINE)
_MEMBERS = re.compile(
    rb"""^(["']?)task\1[ \t]*:[ \t]*(?:\#[^\n]*)?
    (?: [^\s\#{|>] | (?:\r?\n[ \t]*(?:\#[^\n]*)?)+ -[ \t] )""",
    re.MULTILINE | re.VERBOSE,
)
"""``task`` with a name or a list."""

_TABLE = re.compile(
    rb"""^(?: TASKS_TABLE [ \t]* (?: :[^=\r\n]+ )? =
    | from [ \t] [^\r\n]* import [ \t(] [^\r\n]* \b TASKS_TABLE \b )""",
    re.MULTILINE | re.VERBOSE,
)


def dialect_of(path: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> str:
    """The dialect of a file, as :data:`~pytest_evals.dialects.readers.READERS` names
    it; empty for a file in none of them.

    Args:
        path: The file.
        read: Returns its bytes; called only if the suffix is one of ours.
    """
    if path.suffix in YAML_SUFFIXES:
        return dialect(read(path)) or ""
    if path.suffix == ".py":
        return "lighteval" if is_task_module(read(path)) else ""
    return ""


def raw_of(path: Path) -> bytes:
    """The bytes of a file; empty if it cannot be read or is too large for a task."""
    try:
        return b"" if path.stat().st_size > _LARGEST else path.read_bytes()
    except OSError:
        return b""


def is_task_module(raw: bytes) -> bool:
    """Whether Python says that it has a table of lighteval's tasks."""
    return b"TASKS_TABLE" in raw and _TABLE.search(raw) is not None


def _top(*keys: bytes) -> re.Pattern[bytes]:
    names = b"|".join(keys)
    return re.compile(rb"""^(["']?)(?:%s)\1[ \t]*:(?:\s|$)""" % names, re.MULTILINE)


_KEY = _top(rb"key", rb"display_name")
_DEFINITION = _top(rb"definition")
_EVALUATION = _top(rb"task_specifications", rb"evaluation")
_RUN_TASKS = _top(rb"tasks")
_ENTITY = _top(
    rb"definition",
    rb"source",
    rb"generator_specification",
    rb"file_path",
    rb"config",
    rb"process_input",
    rb"process_output",
    rb"rules",
)
_RUN_PART = re.compile(rb"""(?:\$ref|task_specifications|display_name)["']?[ \t]*:""")


_PROMPT = _top(rb"prompt")
_NATIVE_DATA = _top(rb"rows", rb"dataset")
_FOREIGN = _top(
    *(key.encode() for key in OWN_KEYS),
    *(rb"dataset_path", rb"include", rb"output_type", rb"class", rb"group"),
    *(rb"definition", rb"evaluation", rb"task_specifications", rb"key"),
)
"""Keys that only lm-eval's and LatticeFlow's files have."""


def _is_native(raw: bytes) -> bool:
    """Whether a file is an eval of our own dialect: ``prompt`` with ``rows`` or
    ``dataset``, and no key of another dialect."""
    if b"prompt" not in raw or not _PROMPT.search(raw):
        return False
    return bool(_NATIVE_DATA.search(raw)) and not _FOREIGN.search(raw)


def dialect(raw: bytes) -> str | None:
    """Whose dialect a file of tasks is written in.

    Returns:
        ``"lm_eval"`` for tasks and groups, ``"latticeflow"`` for tasks and runs,
        ``"native"`` for a file with ``prompt`` and ``rows`` or ``dataset``, else
        ``None``.
    """
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    if b"task" in raw:
        if _TASK.search(raw) and _TASK_PART.search(raw):
            return "lm_eval"
        if is_group(raw):
            return "lm_eval"
        if _is_run(raw):
            return "latticeflow"
    if _is_task(raw):
        return "latticeflow"
    return "native" if _is_native(raw) else None


_SIGN = re.compile(
    rb"""(?:^|[\s{,"'])(?:%s|gates|group|definition)["']?[ \t]*:"""
    % "|".join(OWN_KEYS).encode(),
    re.IGNORECASE,
)

_ANY_TASK = re.compile(
    rb"""^[ \t]*\{?[ \t]*(["']?)task\1[ \t]*:(?:\s|$)""", re.MULTILINE | re.IGNORECASE
)


def may_look_alike(raw: bytes) -> bool:
    """Whether a file that is in no dialect may have been meant as an eval file, so that
    it is worth to be parsed."""
    return bool(_SIGN.search(raw) or _ANY_TASK.search(raw))


def is_group(raw: bytes) -> bool:
    """Whether a file says that it is a group of tasks."""
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    return bool(b"task" in raw and _GROUP.search(raw) and _MEMBERS.search(raw))


def may_hold_entities(raw: bytes) -> bool:
    """Whether a file may be something that LatticeFlow's tasks name: a dataset, a
    model, a run file, and so on."""
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    if b"task" in raw and _is_run(raw):
        return True
    return bool(_KEY.search(raw) and _ENTITY.search(raw))


def _is_run(raw: bytes) -> bool:
    if not _EVALUATION.search(raw) and not _RUN_TASKS.search(raw):
        return False
    return bool(_RUN_PART.search(raw))


def _is_task(raw: bytes) -> bool:
    """A generator has a definition too, with synthesizers in it."""
    if b"definition" not in raw or not _DEFINITION.search(raw):
        return False
    return bool(_KEY.search(raw)) and b"synthesizers" not in raw


class Lookalike(StrEnum):
    """What a file looks like that is in no dialect."""

    GROUP = "a group file of lm-eval"
    TASK = "a task file of lm-eval"
    GATES = "a gates file"
    LATTICEFLOW = "a task file of LatticeFlow"


_LEAST = 2
"""Keys that make a file look like one of lm-eval's, one of them in ``OWN_KEYS``."""


def looks_like(values: Mapping[Any, Any]) -> Lookalike | None:
    """What the keys of a file look like; ``None`` for something else."""
    keys = {str(key).casefold() for key in values}
    own = keys.intersection(OWN_KEYS)
    if "group" in keys and (own | (keys & {"task", "tasks", "group_alias", "gates"})):
        return Lookalike.GROUP if own or not keys & {"apiversion", "kind"} else None
    if "aggregate_metric_list" in keys:
        return Lookalike.GROUP
    enough = own and len(own) + len(keys.intersection(COMMON_KEYS)) >= _LEAST
    if enough or _has_task_keys_only(values):
        return Lookalike.TASK
    if "gates" in keys and _are_gates(_value(values, "gates")):
        return Lookalike.TASK if keys & {"task", "include"} else Lookalike.GATES
    definition = _value(values, "definition")
    if isinstance(definition, dict) and {"solver", "scorers"} & definition.keys():
        return Lookalike.LATTICEFLOW
    return None


_GENERAL = {"task", "description", "metadata"}
"""Keys that are not enough, since many other programs have files with just these."""


def _has_task_keys_only(values: Mapping[Any, Any]) -> bool:
    """Whether ``task`` is a text, and all other keys are those of a task file or near
    one, as in a file that is not finished or was cut off. One of them must be exact and
    none of :data:`_GENERAL`."""
    if not isinstance(_value(values, "task"), str):
        return False
    known = {*TASK_KEYS, *COMMON_KEYS}
    keys = {str(key).casefold() for key in values}
    if not keys & known - _GENERAL:
        return False
    return all(key in known or nearest(key, [*known]) for key in keys)


def _value(values: Mapping[Any, Any], name: str) -> Any:
    """The value of a key, whatever its case."""
    return next((v for key, v in values.items() if str(key).casefold() == name), None)


def _are_gates(value: object) -> bool:
    listed = value if isinstance(value, list) else [value]
    return any(
        {"metric", "must_pass"} & one.keys()
        if isinstance(one, dict)
        else isinstance(one, str) and re.search(r"[<>≤≥]", one)
        for one in listed
    )
