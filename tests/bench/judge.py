"""Measure ``judge`` in new processes, and exit with 1 above a limit.

    python tests/bench/judge.py

A million scores in one file; 14,042 documents in two files, as MMLU has; a thousand
rows. CPU seconds include the start of Python; memory is the peak of the process.
"""

from __future__ import annotations

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


CASES = (
    Case(1_000, "acc >= 0.5", False, 0.5, 150),
    Case(14_042, '{"metric": "acc", "max_drop": 0.5}', True, 5, 400),
    Case(1_000_000, '{"metric": "acc", "max_drop": 0.5}', True, 20, 800),
    Case(
        1_000_000, '{"metric": "acc", "min": 0.5, "over": "population"}', False, 3, 400
    ),
)


def write(path: Path, n: int, rng: random.Random) -> Path:
    """Write rows with an id and a score of 0 or 1."""
    rows = ({"id": f"q{i}", "acc": int(rng.random() < 0.8)} for i in range(n))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def measure(case: Case, folder: Path) -> tuple[float, float]:
    """CPU seconds and megabytes of one call."""
    rng = random.Random(1)
    command = [sys.executable, "-m", "pytest_evals", "judge", case.gate]
    command.insert(4, str(write(folder / "new.jsonl", case.n, rng)))
    if case.has_baseline:
        command += ["--baseline", str(write(folder / "old.jsonl", case.n, rng))]
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
            both = " twice" if case.has_baseline else ""
            print(
                f"{case.n:>9,} rows{both}: {cpu_s:.2f} s, {mb:.0f} MB; {limits}{mark}"
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
