"""Whether a YAML file is a task file, told from its raw bytes.

This runs on every YAML file of a repository, so it parses nothing and imports nothing
but ``re``. Only keys at the start of a line count.
"""

from __future__ import annotations

import re

__all__ = ["dialect"]

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
