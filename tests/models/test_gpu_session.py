"""The GPU measurements run on any device with small shapes, and write each step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "gpu" / "session.py"


@pytest.mark.slow
def test_a_dry_run_takes_every_step_and_writes_its_figures(tmp_path):
    output = tmp_path / "session.json"
    subprocess.run(
        [sys.executable, SCRIPT, output, "--dry-run"], check=True, capture_output=True
    )
    found = json.loads(output.read_text())
    assert not {k: v["error"] for k, v in found.items() if "error" in v}
    kinds = ["letters", "full_text", "no_shots", "rolling", "generation"]
    for kind in kinds:
        figures = found[f"dry: {kind}"]
        assert figures["errors"] == 0
        assert figures["n_read"] > 0
        assert figures["share_of_matrix_rate"] > 0
    assert {"cascade, 128", "packed, 128"} <= found["dry: prefixes"].keys()
    assert any("cudnn off" in name for name in found["kernels"])


@pytest.mark.slow
def test_steps_that_do_not_fit_into_the_time_are_recorded_as_skipped(tmp_path):
    output = tmp_path / "session.json"
    subprocess.run(
        [sys.executable, SCRIPT, output, "--dry-run", "--minutes=0"],
        check=True,
        capture_output=True,
    )
    found = json.loads(output.read_text())
    assert set(map(str, found["machine"])) == {"skipped"}
