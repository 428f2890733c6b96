"""Whether a file is a task file, told from its raw bytes.

This runs on every YAML file of a repository, so it parses nothing and imports nothing
but ``re``. Only what stands at the start of a line counts.
"""

from __future__ import annotations

import re

__all__ = [
    "GATES_FILES",
    "OWN_KEYS",
    "dialect",
    "is_group",
    "is_task_module",
    "may_hold_entities",
    "may_look_alike",
]

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


def dialect(raw: bytes) -> str | None:
    """Whose dialect a file of tasks is written in.

    Returns:
        ``"lm_eval"`` for a file that says it is a task or a group of tasks,
        ``"latticeflow"`` for one that says it is a task or a run, else ``None``.
    """
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    if b"task" in raw:
        if _TASK.search(raw) and _TASK_PART.search(raw):
            return "lm_eval"
        if is_group(raw):
            return "lm_eval"
        if _is_run(raw):
            return "latticeflow"
    return "latticeflow" if _is_task(raw) else None


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
