"""Whether a file is a task file, told from its raw bytes.

This runs on every YAML file of a repository, so it parses nothing and imports nothing
but ``re``. Only what stands at the start of a line counts.
"""

from __future__ import annotations

import re

__all__ = ["dialect", "is_task_module"]

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


def dialect(raw: bytes) -> str | None:
    """``"lm_eval"`` for a file that says it is a task or a group of tasks, else
    ``None``."""
    if b"task" not in raw:
        return None
    raw = raw.removeprefix(_BYTE_ORDER_MARK)
    if _TASK.search(raw) and _TASK_PART.search(raw):
        return "lm_eval"
    if _GROUP.search(raw) and _MEMBERS.search(raw):
        return "lm_eval"
    return None
