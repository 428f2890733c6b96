"""What identifies a task in the parts of one run: jobs that agree on it have run the
same documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from pytest_evals.core.task import SizedRows, Task
from pytest_evals.gates.documents import Required
from pytest_evals.reports.strict import strict
from pytest_evals.run.suite import Suite, TaskRun
from pytest_evals.store.cache import file_hash

NEEDS = "values that gates need"


def task_identity(run: TaskRun, suite: Suite) -> dict[str, Any]:
    """Return the hashes of a task's ids, of the sizes of its rows and of its file, and
    what its gates need of each document."""
    rows = run.task.rows
    sizes = rows.sizes() if isinstance(rows, SizedRows) else ()
    try:
        file = file_hash(run.task.source.path)
    except OSError:
        file = ""
    return {
        "documents": len(run.ids),
        "ids": _hash(run.ids),
        "rows": _hash(map(str, sizes)),
        "file": file,
        NEEDS: needs(suite.required(run.task.name)),
    }


def needs(required: Required) -> list[str]:
    """Return names of the values of documents that gates need beyond scores."""
    found = [f"field {name}" for name in sorted(required.fields)]
    found += ["repeats"] * required.repeats + ["answers"] * required.compared
    return [*found, *sorted(required.counts)]


def public_config(task: Task) -> dict[str, Any]:
    """Return a task's configuration as in results files, without its metadata, which
    names the model and the place of the file."""
    config = strict({k: v for k, v in task.config.items() if k != "metadata"})
    made: dict[str, Any] = json.loads(json.dumps(config))
    return made


def _hash(texts: Iterable[str]) -> str:
    joined = "\n".join(texts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(joined).hexdigest()[:16]
