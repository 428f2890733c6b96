"""Stored runs, written by hand from the file formats in ``docs/results.md``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_evals.store.history import EarlierRun, read_run


def sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def generated(n: int, prompt: str, answer: str, *, correct: bool | None = True, **more):
    """A row of a generation task, as in samples files."""
    row = {
        "doc_id": n,
        "id": f"d{n}",
        "doc": {"question": prompt},
        "target": "a",
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"]}}},
        "resps": [[answer]],
        "doc_hash": sha(f"{n}"),
        "prompt_hash": sha(prompt),
        "target_hash": sha("a"),
        "status": "scored",
        "error": "",
        "correct": correct,
        "finish": ["stop"],
        "tokens": {"prompt": 5, "answer": 2, "truncated": 0},
        "filtered_resps": [answer],
        "filter": "none",
        "metrics": ["exact_match"],
        "answer": answer,
        "exact_match": float(bool(correct)),
    }
    return row | more


def chosen(n: int, prompt: str, choices: dict[str, float], target: int, **more):
    """A row of a task with choices: text → log-probability."""
    best = max(choices, key=choices.__getitem__)
    right = list(choices).index(best) == target
    more = {
        "doc": {"question": prompt, "label": target},
        "target": str(target),
        "arguments": {
            f"gen_args_{i}": {"arg_0": prompt, "arg_1": text}
            for i, text in enumerate(choices)
        },
        "resps": [[[value, text == best]] for text, value in choices.items()],
        "finish": [""] * len(choices),
        "metrics": ["acc"],
        "acc": float(right),
    } | more
    row = generated(n, prompt, best.strip(), correct=right, **more)
    del row["exact_match"]
    return row


def gate(task: str, outcome: str, **facts: Any) -> dict[str, Any]:
    """A gate as results files have it."""
    return {
        "id": "exact_match",
        "task": task,
        "metric": "exact_match",
        "filter": "none",
        "claim": "exact_match >= 0.75",
        "bounds": [{"op": ">=", "value": 0.75}],
        "must_pass": [],
        "source": f"evals/{task}.yaml:9",
        "outcome": outcome,
        "conclusion": "",
        "reason": "0.700 is not >= 0.75 (7 of 10)",
        "value": 0.7,
        "stderr": 0.1,
        "n_scored": 10,
        "over": "run",
        "interval": None,
        "baseline": None,
        "change": None,
        "notes": [],
        "short": 0.05,
        "n_short": 1,
        "documents": [],
    } | facts


def stored(
    folder: Path, tasks: dict[str, list[dict[str, Any]]], **results: Any
) -> EarlierRun:
    """Write a run, and read it."""
    folder.mkdir(parents=True)
    for name, rows in tasks.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"samples_{name}.jsonl").write_text(lines, encoding="utf-8")
    names = [*tasks]
    known = {
        "results": {
            name: {
                "alias": name,
                "exact_match,none": 0.7,
                "exact_match_stderr,none": 0.1,
            }
            for name in names
        },
        "counts": {name: counts(rows) for name, rows in tasks.items()},
        "higher_is_better": {name: {"exact_match": True} for name in names},
        "n-shot": dict.fromkeys(names, 0),
        "configs": {name: {"output_type": "generate_until"} for name in names},
        "sample_files": {name: f"samples_{name}.jsonl" for name in names},
        "node_ids": {name: f"evals/{name}.yaml::{name}" for name in names},
        "task_hashes": {name: sha(name) for name in names},
        "model_name": "acme/llm-8b",
        "date": 1788516902.5,
        "gates": [],
        "total_evaluation_time_seconds": "9.5",
    }
    (folder / "results.json").write_text(json.dumps(known | results), encoding="utf-8")
    return read_run(folder)


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    status = [row.get("status") for row in rows]
    correct = [row.get("correct") for row in rows]
    return {
        "total": len(rows),
        "selected": len(rows),
        "correct": correct.count(True),
        "wrong": correct.count(False),
        "errored": status.count("errored"),
        "unscored": status.count("unscored"),
        "missing": 0,
        "truncated": 0,
    }


class Write:
    """Shorthand for runs."""

    generated = staticmethod(generated)
    chosen = staticmethod(chosen)
    gate = staticmethod(gate)
    run = staticmethod(stored)


@pytest.fixture(scope="session")
def write() -> Write:
    """The shorthand for runs."""
    return Write()
