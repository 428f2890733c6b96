"""The measures run on this tree, and name existing modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.nightly
def test_measures_trace_a_document_and_a_gate_through_their_modules() -> None:
    pytest.importorskip("grimp")  # comes with import-linter
    printed = subprocess.run(
        [sys.executable, "-m", "tests.tools.measures", "--verbose"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    document, _, gate = printed.partition("first gate")
    assert "-> prompts." in document
    assert "-> core.record" in document
    assert "-> gates." in gate
