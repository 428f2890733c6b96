"""Runs in the form of other programs.

lm-eval 0.4.13: ``results_<date>.json`` and ``samples_<task>_<date>.jsonl`` in a folder
named after the model. Numbers in responses are texts, chats are rendered, and a
document without a score has metrics without values, as lm-eval has no errors.

Hugging Face Hub (hub-docs, ``docs/hub/eval-results.md``): ``.eval_results/*.yaml`` of a
model's repository. Nothing is uploaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pytest_evals.errors import StoreError
from pytest_evals.limits.templates import LimitedChatTemplates
from pytest_evals.store.files import make_folder, replace_text, write_json
from pytest_evals.store.history import EarlierRun

_RESULTS = (
    *("results", "groups", "group_subtasks", "configs", "versions", "n-shot"),
    *("higher_is_better", "n-samples", "config", "git_hash", "date"),
    *("pretty_env_info", "transformers_version", "lm_eval_version", "upper_git_hash"),
    *("tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token"),
    *("eot_token_id", "max_length", "task_hashes", "model_source", "model_name"),
    *("model_name_sanitized", "system_instruction", "system_instruction_sha"),
    *("fewshot_as_multiturn", "chat_template", "chat_template_sha"),
    "total_evaluation_time_seconds",
)
"""Keys of lm-eval's results files, in order."""
_SAMPLE: Mapping[str, Any] = {
    **{"doc_id": None, "doc": {}, "target": "", "arguments": {}, "resps": []},
    **{"filtered_resps": [], "filter": "none", "metrics": []},
    **dict.fromkeys(("doc_hash", "prompt_hash", "target_hash"), ""),
}
"""Keys of its samples files, with values for runs of other programs."""


def write_lm_eval(run: EarlierRun, folder: Path) -> Path:
    """Write a run and return its results file.

    Args:
        run: Its results have numbers, in the form of ours.
        folder: Where the model's folder is made.

    Raises:
        StoreError: A file cannot be read or written.
    """
    results = run.results
    if not results.get("results"):
        raise StoreError(f"{run.path}: its results have no metrics to export")
    date = _file_date(results.get("date"))
    named = str(results.get("model_name_sanitized") or results.get("model_name") or "")
    place = folder / (named.replace("/", "__") or "model")
    make_folder(place, "export")
    render = _renderer(results)
    for task in run.tasks:
        file = place / f"samples_{task.replace('/', '_')}_{date}.jsonl"
        lines = _lines(run, task, render)
        replace_text(file, "".join(f"{line}\n" for line in lines), "export")
    path = place / f"results_{date}.json"
    members = results.get("group_subtasks") or {}
    numbers = {
        name: one
        for name, one in results["results"].items()
        if name in members or name in run.tasks
    }
    groups = {name: numbers[name] for name, names in members.items() if names}
    known = {**results, "results": numbers, **({"groups": groups} if groups else {})}
    write_json(path, {key: known[key] for key in _RESULTS if key in known})
    return path


def _file_date(started: Any) -> str:
    """lm-eval's date in names of files: ISO with dashes."""
    at = float(started) if isinstance(started, int | float) else 0.0
    moment = datetime.fromtimestamp(at, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds").replace(":", "-")


def _lines(
    run: EarlierRun, task: str, render: Callable[[Sequence[Any]], str]
) -> Iterator[str]:
    numbers = run.results["results"].get(task) or {}
    keys = [
        key.partition(",") for key in numbers if "," in key and "_stderr" not in key
    ]
    for row in run.all_rows(task):
        if row.get("excluded"):
            continue
        found = {key: row.get(key, other) for key, other in _SAMPLE.items()}
        filter_ = str(found["filter"])
        names = row.get("metrics") or [
            m for m, _, filter_of_key in keys if filter_of_key == filter_
        ]
        found["arguments"] = {
            name: {key: _argument(value, render) for key, value in request.items()}
            for name, request in found["arguments"].items()
        }
        is_scored = row.get("status", "scored") == "scored"
        for key in ("resps", "filtered_resps"):
            found[key] = _as_text(found[key]) if is_scored else []
        values = {m: row.get(f"{m},{filter_}", row.get(m)) for m in names}
        values = {m: one for m, one in values.items() if not isinstance(one, dict)}
        found["metrics"] = [*values]
        yield _line({**found, **values})


def _line(row: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(row, default=str).decode()
    except orjson.JSONEncodeError:  # lone surrogates
        return json.dumps(row, default=str)


def _argument(value: Any, render: Callable[[Sequence[Any]], str]) -> Any:
    is_chat = isinstance(value, list) and all(isinstance(one, dict) for one in value)
    return render(value) if is_chat else value


def _as_text(value: Any) -> Any:
    """A response with its numbers as texts."""
    if isinstance(value, list):
        return [*map(_as_text, value)]
    return value if isinstance(value, str) else str(value)


def _renderer(results: Mapping[str, Any]) -> Callable[[Sequence[Any]], str]:
    """Renders a chat by the model's template; without one, as JSON like lm-eval's
    requests to servers."""
    info = results.get("model_info")
    info = info if isinstance(info, Mapping) else {}
    template = results.get("chat_template") or info.get("chat_template")
    tokens = {
        name: str((results.get(f"tokenizer_{name}") or [""])[0] or "")
        for name in ("bos_token", "eos_token")
    }
    if not isinstance(template, str) or not template:
        return _as_json
    environment = LimitedChatTemplates(trim_blocks=True, lstrip_blocks=True)

    def render(chat: Sequence[Any]) -> str:
        ends = chat[-1].get("role") == "assistant" if chat else False
        try:
            found = environment.from_string(template)
            return found.render(messages=chat, add_generation_prompt=not ends, **tokens)
        except Exception:  # noqa: BLE001 - templates may raise anything
            return _as_json(chat)

    return render


def _as_json(chat: Sequence[Any]) -> str:
    return json.dumps(chat, ensure_ascii=False)


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


FORMS: Mapping[str, Callable[[EarlierRun, Path], Path]] = {
    "lm-eval": write_lm_eval,
    "hub": write_hub,
}


def export(run: EarlierRun, form: str, folder: Path | None = None) -> Path:
    """Write a run and return the file or folder.

    Args:
        form: A key of :data:`FORMS`.
        folder: Where; ``export`` in the folder of the run by default.

    Raises:
        StoreError: It cannot be written.
    """
    return FORMS[form](run, folder or run.path / "export")
