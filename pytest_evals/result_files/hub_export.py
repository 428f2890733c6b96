"""A run as ``.eval_results/*.yaml`` of a model's repository on the Hugging Face Hub
(hub-docs, ``docs/hub/eval-results.md``). Nothing is uploaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_evals.errors import StoreError
from pytest_evals.store.files import make_folder, replace_text
from pytest_evals.store.history import EarlierRun


def write_hub(run: EarlierRun, folder: Path) -> Path:
    """Write a file for each dataset of the Hub, and return their folder.

    The first metric of a task counts. Tasks with errors, a limit or a sample are left
    out: their numbers are not those of the benchmark.

    Raises:
        StoreError: No task is left, or a file cannot be written.
    """
    entries: dict[str, list[str]] = {}
    for task in run.tasks:
        for dataset, entry in _entries(run.results, task):
            entries.setdefault(dataset, []).append(entry)
    if not entries:
        raise StoreError(
            f"{run.path}: no task is a whole dataset of the Hub with a score for every "
            "document"
        )
    place = folder / ".eval_results"
    make_folder(place, "export")
    for dataset, found in entries.items():
        name = dataset.replace("/", "__")
        replace_text(place / f"{name}.yaml", "".join(found), "export")
    return place


def _entries(results: Mapping[str, Any], task: str) -> Iterator[tuple[str, str]]:
    """The dataset of a task and its entry; nothing for tasks that are left out."""

    def of(section: str) -> Mapping[str, Any]:
        found = (results.get(section) or {}).get(task)
        return found if isinstance(found, Mapping) else {}

    config, counts, numbers = of("configs"), of("counts"), of("results")
    dataset = config.get("dataset_path") or config.get("dataset")
    dataset = dataset.get("path") if isinstance(dataset, Mapping) else dataset
    size = of("n-samples").get("original", counts.get("total"))
    is_whole = size is not None and size == numbers.get("sample_len")
    keys = [k for k in numbers if "," in k and "_stderr" not in k]
    value = numbers[keys[0]] if keys else None
    if not (is_whole and isinstance(dataset, str) and _is_on_hub(dataset)):
        return
    if not isinstance(value, int | float):
        return
    arguments = config.get("dataset_kwargs")
    revision = config.get("revision") or (arguments or {}).get("revision")
    shots = (results.get("n-shot") or {}).get(task)
    notes = f"{keys[0].removesuffix(',none')} of {task}, {size} documents"
    notes += f", {shots} few-shot examples" if shots is not None else ""
    lines = [
        "- dataset:",
        f"    id: {_text(dataset)}",
        f"    task_id: {_text(config.get('dataset_name') or 'default')}",
        *([f"    revision: {_text(revision)}"] if revision else []),
        f"  value: {value!r}",
        *([f"  date: {_text(_date(results['date']))}"] if results.get("date") else []),
        f"  notes: {_text(notes)}",
    ]
    yield dataset, "".join(f"{line}\n" for line in lines)


def _is_on_hub(dataset: str) -> bool:
    is_name = dataset.count("/") == 1 and dataset[0] not in "./~"
    return is_name and not Path(dataset).suffix


def _date(started: Any) -> str:
    return datetime.fromtimestamp(float(started), UTC).date().isoformat()


def _text(value: Any) -> str:
    return json.dumps(str(value), ensure_ascii=False)
