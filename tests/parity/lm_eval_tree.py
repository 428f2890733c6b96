"""Load every YAML file of the installed lm-eval's task tree with this package's loader,
and print as JSON where lm-eval's loader differs.

    python tests/parity/lm_eval_tree.py          # all files
    python tests/parity/lm_eval_tree.py 0 2      # the first of two halves
    python tests/parity/lm_eval_tree.py record   # record lm-eval 0.4.13 again

A separate program, since the helper modules of the tasks have side effects at import:
they warn, look for servers and end the process. It opens no connection.

For a task it compares the configuration as in results files, with all defaults and
functions as their source. ``lm_eval_tree.json.gz`` contains a digest of lm-eval's
configuration of each task. If it is missing or differs, and for a sample of the tasks
in any case, lm-eval's loader is run and its result decides.

Group files, tasks that are Python classes, and tasks whose functions lm-eval cannot
import (mostly because a library is missing) are compared as mappings with all includes,
where a function is the path that lm-eval makes of its tag.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
import json
import logging
import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

os.environ |= {
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
warnings.simplefilter("ignore")


def refuse(*_arguments: object, **_options: object) -> NoReturn:
    raise OSError("no network here")


socket.getaddrinfo = refuse

import lm_eval.tasks  # noqa: E402
from lm_eval.config.task import TaskConfig  # noqa: E402
from lm_eval.tasks._yaml_loader import load_yaml  # noqa: E402

from pytest_evals.core.task import TaskOptions  # noqa: E402
from pytest_evals.dialects.lm_eval.task import load_tasks  # noqa: E402
from pytest_evals.dialects.yaml_reader.includes import read_with_includes  # noqa: E402
from pytest_evals.dialects.yaml_reader.yaml_file import FunctionRef  # noqa: E402
from pytest_evals.errors import TaskFileError  # noqa: E402

TREE = Path(lm_eval.tasks.__file__).parent
RECORDED = Path(__file__).with_suffix(".json.gz")
SAMPLE = 50
"""One file in this many is loaded by lm-eval even if the recording agrees with us."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def plain(value: Any) -> Any:
    """A value as JSON; a function is its source, without addresses."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return ADDRESS.sub("", value) if " at 0x" in value else value
    if value is None or isinstance(value, int | float | bool):
        return value
    return source(value)


@cache
def source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (TypeError, OSError):
        return ADDRESS.sub("", str(function))


def paths(value: Any) -> Any:
    """A value in which each function tag is replaced by lm-eval's path of it."""
    if isinstance(value, FunctionRef):
        folder = value.place.path.parent.resolve()
        return f"{folder}/{value.dotted}"
    if isinstance(value, dict):
        return {key: paths(item) for key, item in value.items()}
    return [paths(item) for item in value] if isinstance(value, list) else value


def their_task(file: Path) -> dict[str, Any] | None:
    """lm-eval's configuration of a task; ``None`` for a file of another kind.

    Raises:
        BaseException: Any exception of the task's modules, including ``SystemExit``.
    """
    values = load_yaml(file)
    if "class" in values or "group" in values or "task" not in values:
        return None
    values.pop("task_list", None)
    config = plain(TaskConfig(**values).to_dict())
    config.setdefault("num_fewshot", 0)  # by evaluator.py, before any request
    return config


def digest(config: dict[str, Any]) -> str:
    """The digest of a configuration in the recording, independent of the tree's
    location."""
    text = json.dumps(config, sort_keys=True).replace(str(TREE), "")
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differing(theirs: dict[Any, Any], ours: dict[Any, Any]) -> list[str]:
    keys = dict.fromkeys([*theirs, *ours])
    return [str(k) for k in keys if theirs.get(k, ...) != ours.get(k, ...)]


class Report:
    def __init__(self, recorded: dict[str, str]) -> None:
        self._recorded = recorded
        self.n_files = self.n_tasks = self.n_same = self.n_same_mappings = 0
        self.n_loaded = 0
        self.differing: dict[str, list[str]] = {}
        self.refused: dict[str, str] = {}
        self.not_loadable: dict[str, str] = {}
        self.not_loadable_here: dict[str, str] = {}
        self.stale: list[str] = []

    def look_at(self, file: Path) -> None:
        """Compare one file."""
        self.n_files += 1
        name = str(file.relative_to(TREE))
        if self.is_as_recorded(name, file):
            self.n_tasks += 1
            self.n_same += 1
        else:
            self.ask(name, file)

    def is_as_recorded(self, name: str, file: Path) -> bool:
        """Whether the result equals the recorded digest; never for the tasks of the
        sample."""
        known = self._recorded.get(name)
        if known is None or int(digest({"file": name}), 16) % SAMPLE == 0:
            return False
        task = self.load(name, file, {})
        return task is not None and digest(plain(task.config)) == known

    def ask(self, name: str, file: Path) -> None:
        """Compare one file with the current result of lm-eval's loader."""
        self.n_loaded += 1
        try:
            theirs = their_task(file)
        except (Exception, SystemExit) as error:  # noqa: BLE001  any exception is reported
            self.not_loadable[name] = f"{type(error).__name__}: {error}"
            self.load(name, file, self.not_loadable_here)
            theirs = None
        if theirs is None:
            self.compare_mappings(name, file)
            return
        self.n_tasks += 1
        if self._recorded.get(name, digest(theirs)) != digest(theirs):
            self.stale.append(name)
        task = self.load(name, file, self.refused)
        if task is None:
            return
        different = differing(theirs, plain(task.config))
        if different:
            self.differing[name] = different
        else:
            self.n_same += 1

    def load(self, name: str, file: Path, faults: dict[str, str]) -> Any:
        """Our task of a file, or the text of our error in the list of errors."""
        try:
            (task,) = load_tasks(file, TaskOptions(allow_unsafe_code=True))
        except TaskFileError as error:
            faults[name] = str(error)
            return None
        return task

    def compare_mappings(self, name: str, file: Path) -> None:
        theirs = load_yaml(file, resolve_func=False)
        different = differing(theirs, paths(read_with_includes(file).values))
        if different:
            self.differing[name] = different
        else:
            self.n_same_mappings += 1


def files(part: int = 0, parts: int = 1) -> Iterator[Path]:
    """The files of one of several parts; a folder is never split, since its files share
    their includes and modules."""
    folders = sorted(folder for folder in TREE.iterdir() if folder.is_dir())
    for folder in folders[part::parts]:
        yield from sorted(folder.rglob("*.yaml"))


def main(part: int = 0, parts: int = 1) -> dict[str, Any]:
    """The report of one of several parts."""
    report = Report(json.loads(gzip.decompress(RECORDED.read_bytes())))
    for file in files(part, parts):
        report.look_at(file)
    return {key: value for key, value in vars(report).items() if key[0] != "_"}


def record() -> None:
    """Record the result of lm-eval's loader for each task."""
    found = {}
    for file in files():
        with suppress(Exception, SystemExit):  # a library that is not installed
            theirs = their_task(file)
            if theirs is not None:
                found[str(file.relative_to(TREE))] = digest(theirs)
    RECORDED.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    stdout, sys.stdout = sys.stdout, sys.stderr
    if sys.argv[1:] == ["record"]:
        record()
    else:
        json.dump(main(*map(int, sys.argv[1:])), stdout)
