"""lighteval's output: ``results_<time>.json`` and ``details_<task>_<time>.parquet``.

Layout of lighteval 0.13.0 (``lighteval/logging/evaluation_tracker.py``): a row of the
details has the structs ``doc``, ``metric`` and ``model_response``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.result_files.documents import (
    ForeignRun,
    GradedAnswer,
    document_rows,
    foreign_run,
    shown_fields,
)
from pytest_evals.result_files.tables import (
    PlacedRow,
    parse_json,
    read_bytes,
    read_table,
)

_TIME = r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?"
_DETAILS = re.compile(rf"details_(?P<task>.+)_(?P<time>{_TIME})\.parquet")


def details_files(folder: Path) -> list[Path]:
    """The files of details in a folder and below."""
    return sorted(
        p for p in folder.rglob("details_*.parquet") if _DETAILS.fullmatch(p.name)
    )


def read_lighteval(path: Path) -> ForeignRun:
    """A run of lighteval: its output folder, that of its details, or one of its files.

    Raises:
        OptionError: There are no details, they are of several models, or a file cannot
            be read.
    """
    files = details_files(path) if path.is_dir() else _beside(path)
    if not files:
        raise OptionError(
            f"{path}: without details it has no documents to judge\n"
            "  fix: run lighteval with --save-details"
        )
    models = {file.parent.parent for file in files}
    if len(models) > 1:
        named = ", ".join(sorted(map(str, models)))
        message = f"{path}: details of {len(models)} models: {named}"
        raise OptionError(f"{message}\n  fix: name the folder of one of them")
    times = sorted({_parts(file)[1] for file in files})
    files = [file for file in files if _parts(file)[1] == times[-1]]
    notes = []
    if len(times) > 1:
        notes.append(f"{path}: the newest of {len(times)} runs, {times[-1]}")
    documents = {}
    for file in files:
        task = _parts(file)[0]
        answers = [_answer(row) for row in read_table(file)]
        documents[task], found = document_rows(answers)
        notes += [f"{file.name}: {one}" for one in found]
    results = _results(path, times[-1], documents)
    return foreign_run(path, "lighteval", documents, results=results, notes=notes)


def _beside(path: Path) -> list[Path]:
    if _DETAILS.fullmatch(path.name):
        return [path]
    time = re.search(_TIME, path.name)
    root = next((p for p in path.parents if (p / "details").is_dir()), path.parent)
    found = details_files(root / "details")
    return [file for file in found if time and _parts(file)[1] == time[0]]


def _parts(file: Path) -> tuple[str, str]:
    """Task and time in the name of a file of details."""
    found = _DETAILS.fullmatch(file.name)
    assert found is not None
    return found["task"], found["time"]


def _results(path: Path, time: str, tasks: Collection[str]) -> dict[str, Any]:
    """Facts of the run from the results file of the same time, in lm-eval's form."""
    name = f"results_{time}.json"
    folder = path if path.is_dir() else path.parent
    found = [*folder.rglob(name)] or [*folder.parent.parent.parent.rglob(name)]
    if not found:
        return {}
    content = parse_json(read_bytes(found[0]), found[0])
    general = content.get("config_general") if isinstance(content, dict) else None
    if not isinstance(general, Mapping):
        return {}
    return {
        "model_name": general.get("model_name"),
        "config": {
            "model": "lighteval",
            "model_args": general.get("model_config") or {},
            "limit": general.get("max_samples"),
        },
        "program_version": general.get("lighteval_sha"),
        "configs": {task: _config(content, task) for task in tasks},
        "n-shot": {task: _shots(task) for task in tasks},
    }


def _config(content: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The dataset and the generation arguments of a task, under lm-eval's names."""
    configs = content.get("config_tasks")
    found = configs.get(task, configs.get(task.replace("|", ":"))) if configs else None
    if not isinstance(found, Mapping):
        return {}
    generation = {"max_gen_toks": found.get("generation_size")}
    return {
        "dataset_path": found.get("hf_repo"),
        "dataset_name": found.get("hf_subset"),
        "revision": found.get("hf_revision"),
        "generation_kwargs": {**generation, "until": found.get("stop_sequence")},
    }


def _shots(task: str) -> int | None:
    """The number of few-shot examples, which ends the name: ``gsm8k|5``."""
    end = re.split(r"[|:]", task)[-1]
    return int(end) if end.isdecimal() else None


def _answer(row: PlacedRow) -> GradedAnswer:
    at, fields = row
    doc, metric, response = (fields.get(k) for k in ("doc", "metric", "model_response"))
    if not isinstance(doc, Mapping) or not isinstance(metric, Mapping):
        message = f"{at}: no columns 'doc' and 'metric'"
        raise OptionError(
            f"{message}; only details of lighteval 0.10 and later can be read"
        )
    response = response if isinstance(response, Mapping) else {}
    golds, choices = doc.get("gold_index"), doc.get("choices") or []
    golds = golds if isinstance(golds, list) else [golds]
    target = [choices[g] for g in golds if isinstance(g, int) and 0 <= g < len(choices)]
    texts = response.get("text_post_processed") or response.get("text") or []
    return GradedAnswer(
        at=at,
        id=str(doc.get("id")),
        scores={name: _value(one) for name, one in metric.items()},
        fields=shown_fields(
            prompt=response.get("input") or doc.get("query"),
            target=" | ".join(map(str, target)),
            answer=_first(texts),
            doc=doc,
        ),
    )


def _value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _first(texts: Any) -> Any:
    if isinstance(texts, Sequence) and not isinstance(texts, str):
        return texts[0] if texts else None
    return texts
