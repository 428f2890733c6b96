"""Random fuzzing of the whole plugin, small enough for every change; see README.md."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SEED = 20261122
CASES = 150
PARTS = 2
ROOT = Path(__file__).parent.parent.parent


PLANTED = 30


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_changed_suites_end_in_order_and_lose_no_gate(part):
    first, last = CASES * part // PARTS, CASES * (part + 1) // PARTS - 1
    _attack(f"{first}-{last}")


@pytest.mark.nightly
@pytest.mark.parametrize("suite", ["secrets", "structure"])
def test_no_secret_is_shown_and_no_hidden_gate_is_lost(suite):
    _attack(f"{PLANTED}", "--suite", suite)


def _attack(cases: str, *options: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seed", f"{SEED}", "--jobs", "1"]
    done = subprocess.run(
        [*command, "--cases", cases, *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
