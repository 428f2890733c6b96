"""Interrupts of runs with slow consumers; see README.md."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_all_responses_of_interrupted_runs_are_stored():
    module = "tests.fuzz.interrupts"
    done = subprocess.run(
        [sys.executable, "-m", module, "--seed", "20261126", "--rounds", "15"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
