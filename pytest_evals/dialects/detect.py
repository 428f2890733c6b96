"""Detects the dialect of a file, and files that resemble one.

:func:`dialect_of` runs on every file that pytest visits. It searches raw bytes with
regular expressions and uses the standard library only. Only keys at the start of a line
are considered.
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
"""Names of gates files next to a suite."""
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
"""Keys of lm-eval files that are rare in other files."""
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
"""Keys of lm-eval files that are common in other files."""
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
"""Maximum bytes; a larger file is data, not a task."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TASK = re.compile(rb"""^(["']?)task\1[ \t]*:[ \t]+[^\s#\[{|>]""", re.MULTILINE)
"""``task`` with a name on the same line; jobs of build files have a mapping there."""
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
    """Return the dialect of a file, as named in
    :data:`~pytest_evals.dialects.readers.READERS`, or an empty string. ``read``
    returns its bytes; called only for known suffixes."""
    if path.suffix in YAML_SUFFIXES:
        return dialect(read(path)) or ""
    if path.suffix == ".py":
        return "lighteval" if is_task_module(read(path)) else ""
    return ""


def raw_of(path: Path) -> bytes:
    """Return the bytes of a file; empty if unreadable or too large for a task."""
    try:
        return b"" if path.stat().st_size > _LARGEST else path.read_bytes()
    except OSError:
        return b""


def is_task_module(raw: bytes) -> bool:
    """Return whether Python source defines a table of lighteval tasks."""
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
    """Return the dialect of a YAML file of tasks.

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


_EVAL_SIGN = _top(rb"prompt", rb"rows", rb"dataset", rb"score")


def may_look_alike(raw: bytes) -> bool:
    """Return whether a file without dialect resembles an eval file: parse it."""
    signs = (_SIGN, _ANY_TASK, _EVAL_SIGN)
    return any(sign.search(raw) for sign in signs)


def is_group(raw: bytes) -> bool:
    """Return whether a file is a group of tasks."""
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    return bool(b"task" in raw and _GROUP.search(raw) and _MEMBERS.search(raw))


def may_hold_entities(raw: bytes) -> bool:
    """Return whether a file may contain entities that LatticeFlow tasks refer to: a
    dataset, a model, a run file, and so on."""
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    if b"task" in raw and _is_run(raw):
        return True
    return bool(_KEY.search(raw) and _ENTITY.search(raw))


def _is_run(raw: bytes) -> bool:
    if not _EVALUATION.search(raw) and not _RUN_TASKS.search(raw):
        return False
    return bool(_RUN_PART.search(raw))


def _is_task(raw: bytes) -> bool:
    """Return whether a file is a task; generators define synthesizers."""
    if b"definition" not in raw or not _DEFINITION.search(raw):
        return False
    return bool(_KEY.search(raw)) and b"synthesizers" not in raw


class Lookalike(StrEnum):
    """The kind of file that a file without dialect resembles."""

    GROUP = "a group file of lm-eval"
    TASK = "a task file of lm-eval"
    GATES = "a gates file"
    LATTICEFLOW = "a task file of LatticeFlow"
    EVAL = "an eval"


_LEAST = 2
"""Minimum number of lm-eval keys, one of them in ``OWN_KEYS``, for a resemblance."""


def looks_like(values: Mapping[Any, Any]) -> Lookalike | None:
    """Return the kind of file that the keys resemble, or ``None``."""
    keys = {str(key).casefold() for key in values}
    own = keys.intersection(OWN_KEYS)
    if "group" in keys and (own | (keys & {"task", "tasks", "group_alias", "gates"})):
        return Lookalike.GROUP if own or not keys & {"apiversion", "kind"} else None
    if "aggregate_metric_list" in keys:
        return Lookalike.GROUP
    enough = own and len(own) + len(keys.intersection(COMMON_KEYS)) >= _LEAST
    if enough or _has_task_keys_only(values):
        return Lookalike.TASK
    if _has_eval_keys_only(keys):
        return Lookalike.EVAL
    if "gates" in keys and _are_gates(_value(values, "gates")):
        return Lookalike.TASK if keys & {"task", "include"} else Lookalike.GATES
    definition = _value(values, "definition")
    has_parts = isinstance(definition, dict) and {"solver", "scorers"} & {*definition}
    return Lookalike.LATTICEFLOW if has_parts else None


_GENERAL = {"task", "description", "metadata"}
"""Keys that are not sufficient, because other programs' files have them too."""


def _has_task_keys_only(values: Mapping[Any, Any]) -> bool:
    """Return whether ``task`` is a string and all other keys are, or resemble, those of
    a task file, as in an incomplete file. One of them must be exact and not in
    :data:`_GENERAL`."""
    if not isinstance(_value(values, "task"), str):
        return False
    known = {*TASK_KEYS, *COMMON_KEYS}
    keys = {str(key).casefold() for key in values}
    if not keys & known - _GENERAL:
        return False
    return all(key in known or nearest(key, [*known]) for key in keys)


EVAL_KEYS = (
    "prompt", "rows", "dataset", "score", "target", "generation", "system", "repeats",
    "task", "description", "id", "model", "gates", "tags", "version", "metadata",
    "choices", "choices_by",
)  # fmt: skip
"""The keys of an eval of our own dialect; the first four are rare elsewhere."""


def _has_eval_keys_only(keys: set[str]) -> bool:
    """Return whether all keys are, or resemble, those of an eval: one of the first four
    exactly, and two of them in all."""
    rare = EVAL_KEYS[:4]
    near = {nearest(key, EVAL_KEYS) for key in keys}
    return (
        bool(keys.intersection(rare))
        and len(near.intersection(rare)) > 1
        and "" not in near
    )


def _value(values: Mapping[Any, Any], name: str) -> Any:
    """Return the value of a key, ignoring case."""
    return next((v for key, v in values.items() if str(key).casefold() == name), None)


def _are_gates(value: object) -> bool:
    listed = value if isinstance(value, list) else [value]
    return any(
        {"metric", "must_pass"} & one.keys()
        if isinstance(one, dict)
        else isinstance(one, str) and re.search(r"[<>≤≥]", one)
        for one in listed
    )
