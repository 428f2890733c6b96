"""The GPU measurements run on any device with small shapes, and write each step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "gpu" / "session.py"


@pytest.mark.nightly
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


STEPS = """
import argparse, resource, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import session

def fails(found):
    found["kept"] = 1
    raise ValueError("broken")

def hangs(found):
    found["kept"] = 2
    time.sleep(60)

output = Path(sys.argv[1])
options = argparse.Namespace(output=output, dry_run=True, minutes=1)
steps = session.Session(options)
session.STEP_S = 0.2
steps.step("fails", fails)
steps.step("hangs", hangs)
steps.step("odd", lambda found: found.update(path=Path("x")))
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))  # as a full disk
steps.step("large", lambda found: found.update(text="y" * 5_000))
steps.step("last", lambda found: found.update(kept=3))
"""


@pytest.mark.nightly
def test_a_failed_step_and_a_full_disk_lose_no_figures(tmp_path):
    output = tmp_path / "session.json"
    done = subprocess.run(
        [sys.executable, "-c", STEPS, output, SCRIPT.parent],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(output.read_text())
    assert found["fails"]["kept"] == 1
    assert "ValueError: broken" in found["fails"]["error"]
    assert found["hangs"]["kept"] == 2
    assert "TimeoutError: stopped after 0 s" in found["hangs"]["error"]
    assert found["odd"]["path"] == "x"
    assert "File too large" in done.stdout
    assert 'last {"kept": 3' in done.stdout


@pytest.mark.nightly
def test_a_second_run_repeats_no_step_that_has_figures(tmp_path):
    output = tmp_path / "session.json"
    before = {"kernels": {"s": 1.0}, "correctness": {"error": "KeyError"}}
    output.write_text(json.dumps(before))
    subprocess.run(
        [sys.executable, SCRIPT, output, "--dry-run", "--minutes=0"],
        check=True,
        capture_output=True,
    )
    found = json.loads(output.read_text())
    assert found["kernels"] == {"s": 1.0}
    # Neither does a run without time replace what is known of a failed step.
    assert found["correctness"] == {"error": "KeyError"}
    assert found["machine"].keys() == {"skipped"}
