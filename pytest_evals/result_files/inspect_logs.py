"""Logs of inspect_ai: ``.json``, and ``.eval``, which is a ZIP of JSON members.

Format of inspect_ai 0.3.285. Members of ``.eval`` are compressed with zstandard, which
``zipfile`` reads from Python 3.14 on; before, one of two packages is needed.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_evals.errors import OptionError
from pytest_evals.result_files.documents import (
    ForeignRun,
    GradedAnswer,
    as_number,
    document_rows,
    foreign_run,
    shown_fields,
)
from pytest_evals.result_files.tables import parse_json, read_bytes

_LETTERS: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's values of correct, partially correct, incorrect and no answer."""
_ZSTD = 93
_LOCAL_HEADER = 30
_ZIP = b"PK\x03\x04"


def is_log(path: Path) -> bool:
    """Whether a file is a log of inspect."""
    if path.suffix == ".eval":
        return path.is_file()
    if path.suffix != ".json":
        return False
    try:
        found = parse_json(read_bytes(path), path)
    except OptionError:
        return False
    return isinstance(found, dict) and {"eval", "plan", "version"} <= found.keys()


def read_inspect(path: Path) -> ForeignRun:
    """A log of inspect, or a folder of logs: one task each, of several the newest.

    The metric of a value is called as inspect aggregates it (``accuracy`` or ``mean``),
    and the scorer is its filter: ``accuracy,match``.

    Raises:
        OptionError: A log cannot be read.
    """
    files = sorted(filter(is_log, path.rglob("*"))) if path.is_dir() else [path]
    logs = sorted(map(_log, files), key=lambda log: str(_eval(log).get("created", "")))
    notes, documents, models = list[str](), dict[str, Any](), dict[str, None]()
    for log in logs:
        about = _eval(log)
        task = str(about.get("task") or path.stem)
        if task in documents:
            notes.append(f"{path}: of several logs of {task} the newest is read")
        models[str(about.get("model"))] = None
        documents[task], found = document_rows(_answers(log))
        notes += [f"{task}: {one}" for one in found]
        if log.get("status") not in ("success", None):
            notes.append(f"{task}: the log's status is {log['status']!r}")
    if len(models) > 1:
        message = f"{path}: logs of {len(models)} models: {', '.join(models)}"
        raise OptionError(f"{message}\n  fix: name the logs of one of them")
    packages = [_eval(log).get("packages") or {} for log in logs]
    results = {
        "model_name": next(iter(models), ""),
        "program_version": packages[-1].get("inspect_ai") if packages else None,
        "configs": _configs(logs),
        "config": {"model_args": _eval(logs[-1]).get("model_args") or {}}
        if logs
        else {},
    }
    return foreign_run(path, "inspect", documents, results=results, notes=notes)


def _eval(log: Mapping[str, Any]) -> Mapping[str, Any]:
    found = log.get("eval")
    return found if isinstance(found, Mapping) else {}


def _configs(logs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        str(_eval(log).get("task")): {
            "dataset_path": (_eval(log).get("dataset") or {}).get("location"),
            "generation_kwargs": _eval(log).get("model_generate_config") or {},
            "limit": (_eval(log).get("config") or {}).get("limit"),
        }
        for log in logs
    }


def _log(path: Path) -> dict[str, Any]:
    """The content of a log, with its samples."""
    if path.suffix != ".eval" or read_bytes(path)[:4] != _ZIP:
        log = parse_json(read_bytes(path), path)
        if not isinstance(log, dict) or "eval" not in log:
            raise OptionError(f"{path}: not a log of inspect")
        return log
    try:
        with zipfile.ZipFile(path) as archive:
            return _members(archive, path)
    except (zipfile.BadZipFile, OSError) as error:
        raise OptionError(f"{path}: not a log of inspect: {error}") from None


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    names = archive.namelist()
    header = next((n for n in ("header.json", "_journal/start.json") if n in names), "")
    if not header:
        raise OptionError(f"{path}: not a log of inspect: it has no header.json")
    log: dict[str, Any] = parse_json(_content(archive, header, path), path)
    if header != "header.json":  # it was interrupted
        log["status"] = "started"
    log["samples"] = [
        parse_json(_content(archive, name, path), f"{path}, {name}")
        for name in names
        if name.startswith("samples/") and name.endswith(".json")
    ]
    return log


def _content(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    info = archive.getinfo(name)
    try:
        return archive.read(info)
    except NotImplementedError:
        if info.compress_type != _ZSTD:
            raise OptionError(f"{path}: unknown compression of {name}") from None
    file = archive.fp
    assert file is not None
    file.seek(info.header_offset + 26)
    n_name, n_extra = struct.unpack("<HH", file.read(4))
    file.seek(info.header_offset + _LOCAL_HEADER + n_name + n_extra)
    return _decompressor(path)(file.read(info.compress_size))


def _decompressor(path: Path) -> Callable[[bytes], bytes]:
    try:
        from backports.zstd import decompress
    except ImportError:
        pass
    else:
        return decompress
    try:
        from zstandard import ZstdDecompressor
    except ImportError:
        raise OptionError(
            f"{path}: its members are compressed with zstandard, which this Python "
            "cannot read\n  fix: pip install backports.zstd, or convert it: "
            f"inspect log convert --to json --output-dir json {path}"
        ) from None
    return lambda data: bytes(ZstdDecompressor().decompressobj().decompress(data))


def _answers(log: Mapping[str, Any]) -> Iterator[GradedAnswer]:
    named = _metric_names(log)
    samples = [one for one in log.get("samples") or () if isinstance(one, dict)]
    scorers = {name for one in samples for name in one.get("scores") or ()}
    for sample in samples:
        error = sample.get("error")
        message = (
            str(error.get("message") or error) if isinstance(error, Mapping) else ""
        )
        scores = sample.get("scores") or {}
        shared = {"id": str(sample.get("id")), "repeat": sample.get("epoch", 1)}
        at = f"sample {shared['id']}"
        for scorer in scorers or {"none"}:
            score = scores.get(scorer)
            why = message or ("" if score is not None else "it has no score")
            values = _values(score, named.get(scorer, ""))
            yield GradedAnswer(
                at,
                shared["id"],
                values,
                scorer,
                shared["repeat"],
                why,
                _shown(sample, score),
            )


def _metric_names(log: Mapping[str, Any]) -> dict[str, str]:
    """Scorer → the metric of its values."""
    names = {}
    for one in (log.get("results") or {}).get("scores") or ():
        metrics = one.get("metrics") or {}
        known = next((n for n in ("accuracy", "mean") if n in metrics), "")
        names[str(one.get("scorer") or one.get("name"))] = known
        names[str(one.get("name"))] = known
    return names


def _values(score: Any, name: str) -> dict[str, Any]:
    value = score.get("value") if isinstance(score, Mapping) else None
    if isinstance(value, Mapping):
        return {str(key): _number(one) for key, one in value.items()}
    is_letter = value is None or isinstance(value, bool) or value in (*_LETTERS,)
    return {name or ("accuracy" if is_letter else "mean"): _number(value)}


def _number(value: Any) -> Any:
    if isinstance(value, str) and value in _LETTERS:
        return _LETTERS[value]
    return as_number(value)


def _shown(sample: Mapping[str, Any], score: Any) -> dict[str, Any]:
    output = sample.get("output")
    answer = score.get("answer") if isinstance(score, Mapping) else None
    if answer is None and isinstance(output, Mapping):
        answer = output.get("completion")
    target = sample.get("target")
    shown = shown_fields(
        prompt=sample.get("input"),
        target=" | ".join(map(str, target)) if isinstance(target, list) else target,
        answer=answer,
        doc=sample.get("metadata"),
    )
    explanation = score.get("explanation") if isinstance(score, Mapping) else None
    return shown | ({"explanations": {"": explanation}} if explanation else {})
