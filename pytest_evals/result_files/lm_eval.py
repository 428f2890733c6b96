"""lm-eval's output: ``results_<date>.json`` and ``samples_<task>_<date>.jsonl``.

Layouts of lm-eval 0.4.0 to 0.4.13 (``lm_eval/loggers/evaluation_tracker.py``): until
0.4.2 ``results.json`` next to ``<model arguments>_<task>.jsonl``, each one JSON array.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.result_files.documents import (
    NO_FILTER,
    ForeignRun,
    GradedAnswer,
    as_number,
    document_rows,
    foreign_run,
)
from pytest_evals.result_files.tables import (
    PlacedRow,
    parse_json,
    read_bytes,
    read_table,
)

_DATE = r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(?P<task>.+?)(?:_(?P<date>{_DATE}))?\.jsonl(?:\.gz)?")
_RESULTS = re.compile(
    rf"(?:.*_)?results(?:_(?P<date>{_DATE}))?\.json|.+_(?P<own>{_DATE})\.json"
)
_GREEDY = ("True", "False", True, False)
_ARRAY = re.compile(r"\[[-+.\deE\s]+\]")
_KEPT = (
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "doc_hash",
    "prompt_hash",
    "target_hash",
)


def results_files(folder: Path) -> list[Path]:
    """The results files of lm-eval in a folder and below."""
    found = (path for path in folder.rglob("*.json") if _RESULTS.fullmatch(path.name))
    return sorted(path for path in found if is_results(path))


def samples_files(folder: Path) -> list[Path]:
    """The samples files in a folder and below."""
    return sorted(p for p in folder.rglob("samples_*") if _SAMPLES.fullmatch(p.name))


def is_results(path: Path) -> bool:
    """Whether a file is a results file of lm-eval."""
    try:
        found = parse_json(read_bytes(path), path)
    except OptionError:
        return False
    return isinstance(found, dict) and {"results", "configs"} <= found.keys()


def read_lm_eval(path: Path) -> ForeignRun:
    """A run of lm-eval: a folder, a results file or a samples file.

    Of several runs in a folder the newest is read, and a note names it.

    Raises:
        OptionError: The folder has runs of several models, no samples, or a file
            cannot be read.
    """
    if path.is_file() and _SAMPLES.fullmatch(path.name):
        return _run(path, {}, {_task_name(path): path}, [])
    if path.is_file():
        return _run_of(path, path, [])
    files = results_files(path)
    parents = {file.parent for file in files}
    if len(parents) > 1:
        named = ", ".join(sorted(str(one.relative_to(path)) for one in parents))
        message = f"{path}: results in {len(parents)} folders: {named}"
        raise OptionError(f"{message}\n  fix: name one of them")
    if not files:
        samples = _newest(samples_files(path))
        return _run(path, {}, samples, [])
    newest = max(files, key=_date)
    notes = []
    if len(files) > 1:
        notes = [f"{path}: the newest of {len(files)} runs, {newest.name}"]
    return _run_of(path, newest, notes)


def _date(path: Path) -> tuple[str, float]:
    found = re.search(_DATE, path.name)
    return (found[0].replace(":", "-") if found else "", path.stat().st_mtime)


def _newest(files: Sequence[Path]) -> dict[str, Path]:
    """Task → its newest samples file."""
    return {_task_name(path): path for path in sorted(files, key=_date)}


def _task_name(path: Path) -> str:
    found = _SAMPLES.fullmatch(path.name)
    return found["task"] if found else path.stem


def _run_of(path: Path, results_file: Path, notes: list[str]) -> ForeignRun:
    results = parse_json(read_bytes(results_file), results_file)
    if not isinstance(results, dict) or not isinstance(results.get("results"), dict):
        raise OptionError(f"{results_file}: not a results file of lm-eval")
    tasks = [*(results.get("configs") or results["results"])]
    date = re.search(_DATE, results_file.name)
    samples: dict[str, Path] = {}
    for task in tasks:
        file = _samples_of(results_file.parent, task, date[0] if date else "")
        if file is not None:
            samples[task] = file
    if not samples:
        raise OptionError(
            f"{results_file}: no samples files next to it, so no documents to judge\n"
            "  fix: run lm_eval with --log_samples"
        )
    lacking = [task for task in tasks if task not in samples]
    if lacking:
        notes = [*notes, f"{results_file.name}: no samples of {', '.join(lacking)}"]
    return _run(path, results, samples, notes)


def _samples_of(folder: Path, task: str, date: str) -> Path | None:
    """The samples file of a task: lm-eval replaces characters in its name."""
    names = {task, re.sub(r"\W", "_", task), re.sub(r'["<>:/|\\?*\[\]]+', "__", task)}
    found = [folder / f"samples_{name}_{date}.jsonl" for name in names]
    if not date:
        found += [folder / f"samples_{name}.jsonl" for name in names]
        found += sorted(p for n in names for p in folder.glob(f"*_{n}.jsonl"))
    return next((path for path in found if path.is_file()), None)


def _run(
    path: Path,
    results: Mapping[str, Any],
    samples: Mapping[str, Path],
    notes: list[str],
) -> ForeignRun:
    documents = {}
    for task, file in samples.items():
        answers = (_answer(row) for row in read_table(file))
        documents[task], found = document_rows(answers)
        notes += [f"{file.name}: {one}" for one in found]
    return foreign_run(path, "lm-eval", documents, results=results, notes=notes)


def _answer(row: PlacedRow) -> GradedAnswer:
    at, fields = row
    if "doc_id" not in fields:
        raise OptionError(f"{at}: no key 'doc_id', which lm-eval's samples have")
    names = fields.get("metrics")
    if not isinstance(names, list):  # before 0.4.8 metrics were not listed
        known = {*_KEPT, "doc_id", "filter"}
        names = [k for k, v in fields.items() if k not in known and _is_score(v)]
    shown = {key: fields[key] for key in _KEPT if key in fields}
    if isinstance(shown.get("arguments"), list):
        shown["arguments"] = _named_arguments(shown["arguments"])
    _share_prompt(shown.get("arguments"))
    return GradedAnswer(
        at=at,
        id=str(fields["doc_id"]),
        scores={name: _value(fields.get(name)) for name in names},
        filter=str(fields.get("filter") or NO_FILTER),
        fields={**shown, **_shown_answer(fields)},
    )


def _value(value: Any) -> Any:
    """A score; arrays in it, which lm-eval writes as text, are lists again."""
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, str) and _ARRAY.fullmatch(value):
        return [float(one) for one in value[1:-1].split()]
    return value


def _is_score(value: Any) -> bool:
    return not isinstance(value, str) and as_number(value) is not None


def _named_arguments(arguments: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """The arguments of early 0.4, lists of lists, as today."""
    return {
        f"gen_args_{i}": {f"arg_{j}": value for j, value in enumerate(_list(one))}
        for i, one in enumerate(arguments)
    }


def _share_prompt(arguments: Any) -> None:
    """Make equal prompts of a document's requests one object: they are long."""
    requests = arguments.values() if isinstance(arguments, Mapping) else ()
    prompts: dict[Any, Any] = {}
    for one in requests:
        if isinstance(one, dict) and isinstance(one.get("arg_0"), str):
            one["arg_0"] = prompts.setdefault(one["arg_0"], one["arg_0"])


def _list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [value]


def _shown_answer(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The answer for display: the choice with the largest log-probability, or the
    filtered text."""
    filtered = fields.get("filtered_resps")
    if not isinstance(filtered, list) or not filtered:
        return {}
    logprobs = _logprobs(filtered)
    if not logprobs:
        first = filtered[0]
        while isinstance(first, list) and first:
            first = first[0]
        return {"answer": str(first)}
    best = max(range(len(logprobs)), key=logprobs.__getitem__)
    return {"answer": str(best), "logprobs": logprobs}


def _logprobs(filtered: Sequence[Any]) -> list[float] | None:
    """The log-probabilities of choices, which lm-eval writes as text, each with whether
    it is greedy."""
    try:
        return [float(text) for text, is_greedy in filtered if is_greedy in _GREEDY]
    except (TypeError, ValueError):
        return None
