"""Writers of result files as other programs write them (lm-eval 0.4.13, lighteval
0.13.0, inspect_ai 0.3.285, Harbor, SWE-bench), from the same scores."""

import csv
import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Scores = Mapping[str, float | None]
"""Id of a document → its score, ``None`` for an error."""
DATE = "2026-11-26T10-00-00.123456"


def lm_eval(folder: Path, scores: Scores, filters: Sequence[str] = ("none",)) -> Path:
    """An output folder of ``lm_eval --log_samples``: a row a document and filter."""
    place = folder / "org__model"
    place.mkdir(parents=True)
    rows = []
    for filter_ in filters:
        for number, (id_, score) in enumerate(scores.items()):
            doc = {"question": f"What is {id_}?", "id": id_}
            rows.append(
                {
                    "doc_id": number,
                    "doc": doc,
                    "target": id_,
                    "arguments": {
                        "gen_args_0": {"arg_0": f"Q: {id_}\nA:", "arg_1": {}}
                    },
                    "resps": [["x"]],
                    "filtered_resps": ["x"],
                    "filter": filter_,
                    "metrics": ["exact_match"],
                    "doc_hash": _sha(json.dumps(doc, indent=2)),
                    "prompt_hash": _sha(f"Q: {id_}\nA:"),
                    "target_hash": _sha(id_),
                    "exact_match": score,
                }
            )
    (place / f"samples_quiz_{DATE}.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    known = [one for one in scores.values() if one is not None]
    results = {f"exact_match,{one}": sum(known) / len(known) for one in filters}
    content = {
        "results": {"quiz": {"alias": "quiz", **results}},
        "group_subtasks": {"quiz": []},
        "configs": {"quiz": {"output_type": "generate_until"}},
        "versions": {"quiz": 1.0},
        "n-shot": {"quiz": 0},
        "higher_is_better": {"quiz": {"exact_match": True}},
        "n-samples": {"quiz": {"original": len(scores), "effective": len(scores)}},
        "config": {"model": "hf", "model_args": {}, "limit": None},
        "lm_eval_version": "0.4.13",
        "model_name": "org/model",
    }
    (place / f"results_{DATE}.json").write_text(json.dumps(content))
    return folder


def lighteval(folder: Path, scores: Scores) -> Path:
    """An output folder of lighteval with details."""
    details = folder / "details" / "org" / "model" / DATE
    details.mkdir(parents=True)
    rows = [
        {
            "doc": {
                "query": f"Q: {id_}",
                "choices": [id_],
                "gold_index": 0,
                "id": id_,
                "specific": None,
            },
            "metric": {"exact_match": score},
            "model_response": {"input": f"Q: {id_}\nA:", "text": ["x"], "logprobs": []},
        }
        for id_, score in scores.items()
    ]
    pq.write_table(
        pa.Table.from_pylist(rows), details / f"details_quiz|0_{DATE}.parquet"
    )
    results = folder / "results" / "org" / "model"
    results.mkdir(parents=True)
    content = {"config_general": {"model_name": "org/model", "max_samples": None}}
    (results / f"results_{DATE}.json").write_text(json.dumps(content))
    return folder


def inspect_log(scores: Scores, epochs: int = 1) -> dict:
    """A log of inspect as JSON."""
    samples = []
    for id_, score in scores.items():
        for epoch in range(1, epochs + 1):
            sample = {"id": id_, "epoch": epoch, "input": f"Q: {id_}", "target": id_}
            if score is None:
                sample["error"] = {"message": "timed out", "traceback": ""}
            else:
                value = "C" if score else "I"
                sample["scores"] = {"match": {"value": value, "answer": "x"}}
            samples.append(sample)
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "created": "2026-11-26T10:00:00+00:00",
            "task": "quiz",
            "model": "org/m",
        },
        "plan": {},
        "results": {
            "scores": [
                {"name": "match", "scorer": "match", "metrics": {"accuracy": {}}}
            ]
        },
        "samples": samples,
    }


def inspect_json(folder: Path, scores: Scores) -> Path:
    """A folder of ``--log-format json``."""
    folder.mkdir()
    (folder / "quiz.json").write_text(json.dumps(inspect_log(scores)))
    return folder


def inspect_eval(path: Path, scores: Scores, compress: Callable | None = None) -> Path:
    """An ``.eval`` file; ``compress`` makes zstandard members, as inspect does."""
    log = inspect_log(scores)
    samples = log.pop("samples")
    members = {"header.json": log}
    members |= {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            data = json.dumps(content).encode()
            if compress is None:
                archive.writestr(name, data)
            else:
                _write_member(archive, name, data, compress)
    return path


def _write_member(
    archive: zipfile.ZipFile, name: str, data: bytes, compress: Callable
) -> None:
    """A member whose compression this Python's zipfile cannot write."""
    info = zipfile.ZipInfo(name)
    packed = compress(data)
    with archive.open(info, "w") as member:
        member.write(packed)
    info.compress_type, info.file_size = 93, len(data)
    info.CRC = zipfile.crc32(data)
    archive.fp.seek(info.header_offset)
    archive.fp.write(info.FileHeader(zip64=False))
    archive.fp.seek(archive.start_dir)


def harbor(folder: Path, scores: Scores) -> Path:
    """A job of Harbor; an errored trial has a reward of 0, which does not count."""
    for id_, score in scores.items():
        trial = folder / "job" / f"{id_}__Ab3"
        trial.mkdir(parents=True)
        fault = {"exception_type": "AgentTimeoutError", "exception_message": "900 s"}
        content = {
            "task_name": id_,
            "trial_name": f"{id_}__Ab3",
            "verifier_result": {"rewards": {"reward": score or 0.0}},
            "exception_info": fault if score is None else None,
            "agent_result": {"cost_usd": 0.25, "n_input_tokens": 10},
        }
        (trial / "result.json").write_text(json.dumps(content))
    (folder / "job" / "result.json").write_text('{"n_total_trials": 3, "stats": {}}')
    return folder


def swe_bench(path: Path, scores: Scores) -> Path:
    """A report of SWE-bench."""
    of = {1.0: "resolved_ids", 0.0: "unresolved_ids", None: "error_ids"}
    report = {key: [] for key in (*of.values(), "empty_patch_ids", "submitted_ids")}
    for id_, score in scores.items():
        report[of[score]].append(id_)
        report["submitted_ids"].append(id_)
    path.write_text(json.dumps({"schema_version": 2, **report}))
    return path


def jsonl(path: Path, scores: Scores) -> Path:
    """A row a document."""
    rows = [{"id": id_, "acc": score} for id_, score in scores.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def json_array(path: Path, scores: Scores) -> Path:
    """One array of rows."""
    path.write_text(json.dumps([{"id": i, "acc": s} for i, s in scores.items()]))
    return path


def csv_file(path: Path, scores: Scores, separator: str = ",") -> Path:
    """A table with a header."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, delimiter=separator)
        rows.writerow(["id", "acc"])
        rows.writerows([i, "" if s is None else s] for i, s in scores.items())
    return path


def parquet(path: Path, scores: Scores) -> Path:
    """A table of Parquet."""
    rows = [{"id": id_, "acc": score} for id_, score in scores.items()]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
