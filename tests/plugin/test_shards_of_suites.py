"""Parts of the example suites, merged: the numbers and samples of one run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SUITES = Path(__file__).parents[2] / "example_suites"
MODEL = "--model=hf:./tiny,dtype=float32"
VARYING = ("latency_s", "gen_kwargs")


def run(folder, *arguments, command=("pytest",)):
    done = subprocess.run(
        [sys.executable, "-m", *command, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout
    return done.returncode


def numbers(folder):
    """What a run has measured and judged, and each document's samples."""
    found = json.loads((folder / "results.json").read_text())
    gates = [{**gate, "notes": ""} for gate in found["gates"]]
    samples = {
        path.name: [
            {k: v for k, v in json.loads(line).items() if k not in VARYING}
            for line in path.read_text().splitlines()
        ]
        for path in folder.glob("samples_*")
    }
    return found["results"], found.get("groups"), found["counts"], gates, samples


@pytest.mark.nightly
@pytest.mark.parametrize("suite", ["lm_eval", "lighteval", "latticeflow"])
def test_merged_parts_of_a_suite_equal_one_run(suite, tmp_path):
    shutil.copytree(SUITES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    path = suite if suite != "lighteval" else "lighteval/eval_toyworld.py"
    code = run(tmp_path, MODEL, path, "--evals-run-dir=one")
    for n in (2, 3, 8):
        for part in range(1, n + 1):
            place = f"--evals-run-dir=parts{n}/{part}"
            assert run(tmp_path, MODEL, path, f"--evals-shard={part}/{n}", place) == 0
        parts = [f"parts{n}/{part}" for part in range(1, n + 1)]
        merge = ("pytest_evals", "merge", *parts, "-o", f"merged{n}")
        assert run(tmp_path, command=merge) == code
        assert numbers(tmp_path / f"merged{n}") == numbers(tmp_path / "one")
