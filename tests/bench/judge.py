"""Measure ``judge`` in new processes, and exit with 1 above a limit.

    python tests/bench/judge.py

A million scores in one file; 14,042 documents in two files, as MMLU has, and in two
folders of lm-eval with 57 tasks and five shots; a thousand rows. CPU seconds include
the start of Python; memory is the peak of the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """A call of ``judge`` and its limits."""

    n: int
    gate: str
    has_baseline: bool
    most_cpu_s: float
    most_mb: float
    n_tasks: int = 0  # More than 0: folders of lm-eval

    @property
    def name(self) -> str:
        """What is judged."""
        twice = " twice" if self.has_baseline else ""
        tasks = f" of {self.n_tasks} tasks" if self.n_tasks else ""
        return f"{self.n:,} rows{tasks}{twice}"


CASES = (
    Case(1_000, "acc >= 0.5", False, 0.5, 150),
    Case(14_042, '{"metric": "acc", "max_drop": 0.5}', True, 5, 400),
    Case(14_042, '{"metric": "acc", "max_drop": 0.5}', True, 5, 400, n_tasks=57),
    Case(1_000_000, '{"metric": "acc", "max_drop": 0.5}', True, 20, 800),
    Case(
        1_000_000, '{"metric": "acc", "min": 0.5, "over": "population"}', False, 3, 400
    ),
)


_SHOT = """Question: which of these statements follows from the others, if one is false?
A. The first one
B. The second one
C. Both of them
D. None of them
Answer: C

"""
SHOTS = _SHOT * 18
"""2,700 characters, as five questions of MMLU have."""


def write(path: Path, case: Case, rng: random.Random) -> Path:
    """Write rows with an id and a score of 0 or 1."""
    if case.n_tasks:
        return write_folder(path.with_suffix(""), case, rng)
    rows = ({"id": f"q{i}", "acc": int(rng.random() < 0.8)} for i in range(case.n))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_folder(folder: Path, case: Case, rng: random.Random) -> Path:
    """Write a folder as of ``lm_eval --log_samples``."""
    date = "2026-11-26T10-00-00.123456"
    place = folder / "org__model"
    place.mkdir(parents=True, exist_ok=True)
    content = {
        "results": {},
        "configs": {},
        "n-samples": {},
        "higher_is_better": {},
        "config": {"model": "hf", "model_args": {}, "limit": None},
        "lm_eval_version": "0.4.13",
    }
    for number in range(case.n_tasks):
        task = f"mmlu_{number}"
        n = case.n // case.n_tasks + (number < case.n % case.n_tasks)
        rows = [row(f"{task}, {i}", i, rng) for i in range(n)]
        text = "".join(json.dumps(one) + "\n" for one in rows)
        (place / f"samples_{task}_{date}.jsonl").write_text(text)
        mean = sum(one["acc"] for one in rows) / n
        content["results"][task] = {"alias": task, "acc,none": mean}
        content["configs"][task] = {"output_type": "multiple_choice", "num_fewshot": 5}
        content["n-samples"][task] = {"original": n, "effective": n}
        content["higher_is_better"][task] = {"acc": True}
    (place / f"results_{date}.json").write_text(json.dumps(content))
    return folder


def row(name: str, number: int, rng: random.Random) -> dict:
    """A document of lm-eval with four choices."""
    doc = {"question": f"Which one is it in {name}?", "choices": [*"wxyz"], "answer": 1}
    prompt = f"{SHOTS}{doc['question']}\nA. w\nB. x\nC. y\nD. z\nAnswer:"
    scores = [rng.random() for _ in range(4)]
    return {
        "doc_id": number,
        "doc": doc,
        "target": "1",
        "arguments": {
            f"gen_args_{i}": {"arg_0": prompt, "arg_1": f" {letter}"}
            for i, letter in enumerate("ABCD")
        },
        "resps": [[[str(-one), "False"]] for one in scores],
        "filtered_resps": [[str(-one), "False"] for one in scores],
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": hashlib.sha256(json.dumps(doc).encode()).hexdigest(),
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        "target_hash": hashlib.sha256(b"1").hexdigest(),
        "acc": float(rng.random() < 0.8),
    }


def measure(case: Case, folder: Path) -> tuple[float, float]:
    """CPU seconds and megabytes of one call."""
    rng = random.Random(1)
    command = [sys.executable, "-m", "pytest_evals", "judge", case.gate]
    command.insert(4, str(write(folder / "new.jsonl", case, rng)))
    if case.has_baseline:
        command += ["--baseline", str(write(folder / "old.jsonl", case, rng))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    """Print a line for each case, and return the exit code."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            cpu_s, mb = min(measure(case, Path(folder)) for _ in range(3))
            is_over = cpu_s > case.most_cpu_s or mb > case.most_mb
            failed |= is_over
            limits = f"limits {case.most_cpu_s:g} s, {case.most_mb:g} MB"
            mark = "  ABOVE" if is_over else ""
            print(f"{case.name}: {cpu_s:.2f} s, {mb:.0f} MB; {limits}{mark}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
