"""Names and ids from data as parts of node ids.

They are shown in terminals, logs of CI systems, JUnit files and commands to copy.
Characters that move the cursor, change the direction of writing or are invisible are
replaced, and so is ``##[``, which begins a command of GitHub's log. The characters are
listed here, and not looked up by category, so that ids do not depend on the version of
Python.

Letters of all scripts are unchanged; so are the joiners within words and emoji.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

LONGEST_ID = 64
_UNSEEN = (
    r"\s\x00-\x1f\x7f-\x9f"  # white space and controls
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    r"\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # without width
    r"\U000e0000-\U000e007f"  # tags
    r"\ud800-\udfff\ufffe\uffff"  # not characters: JUnit files cannot contain them
)
_REPLACED = re.compile(f"[{_UNSEEN}]+")
_COMMAND = re.compile(r"#(?=#\[)")
_UNFIT_ID = re.compile(f"[{_UNSEEN}]|::|##\\[")
_UNFIT_NAME = re.compile(r"::|[\[\]]|##\Z")


def document_id(text: str) -> str:
    """A text as the id of a document, in brackets: at most 64 characters; empty if
    nothing is left."""
    text = _REPLACED.sub("_", text.strip())
    text = re.sub(":{2,}", ".", text)
    return _COMMAND.sub("_", text)[:LONGEST_ID]


def unfit_id(ids: Iterable[str]) -> str | None:
    """The first id that a node id cannot contain; ``None`` if all are valid."""
    return next((one for one in ids if not one or _UNFIT_ID.search(one)), None)


def is_node_name(text: str) -> bool:
    """Whether a name is valid for tasks and groups, before the brackets of node ids."""
    return bool(text) and text.isprintable() and not _UNFIT_NAME.search(text)


def names_by_folder(name: str, nodeid: str) -> tuple[str, ...]:
    """A name with more and more of the folders of its file: ``support``,
    ``evals/support``, ``billing/evals/support``; the last one is complete. A name in
    the rootdir becomes ``./support``. ``nodeid``: node id of the task or group."""
    folders = PurePosixPath(nodeid.partition("::")[0]).parent.parts or (".",)
    starts = reversed(range(len(folders)))
    return name, *("/".join((*folders[start:], name)) for start in starts)


def node_label(model: str, variant: str) -> str:
    """The start of the brackets of node ids: the name of the model, if several are
    tested, and the variant of the eval, if it has several; empty without both."""
    return "-".join(filter(None, (model, variant)))


def document_start(task: str, label: str = "") -> str:
    """The node ids of a task's documents up to their own ids, ``arc_easy[`` or, with a
    :func:`node_label`, ``arc_easy[gpt2-``."""
    return f"{task}[{label}-" if label else f"{task}["


def gate_name(gate: str, label: str = "") -> str:
    """A gate as the last part of its node id, ``acc`` or ``acc[gpt2]``."""
    return f"{gate}[{label}]" if label else gate


def file_id(path: Path, root: Path) -> str:
    """A file's node id: its path relative to the rootdir, even if outside of it."""
    try:
        return Path(os.path.relpath(path, root)).as_posix()
    except ValueError:  # another drive
        return path.as_posix()
