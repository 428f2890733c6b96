"""The measures run on this tree, and name existing modules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARCHITECTURE = ROOT / "docs" / "architecture.md"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def measures() -> str:
    """The output, of a Python that cannot import grimp."""
    code = (
        "import sys, runpy; sys.modules['grimp'] = None; sys.argv[1:] = ['--verbose']"
    )
    return subprocess.run(
        [
            *(sys.executable, "-c"),
            f"{code}; runpy.run_module('tests.tools.measures', run_name='__main__')",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_measures_trace_a_document_and_a_gate_through_their_modules(measures) -> None:
    document, _, gate = measures.partition("first gate")
    assert "import cycles: 0" in document
    assert "-> prompts." in document
    assert "-> core.record" in document
    assert "-> gates." in gate


def test_the_architecture_names_every_module_that_a_document_passes(measures) -> None:
    """With pytest, as its walk states."""
    _, _, rest = measures.partition("one document, pytest")
    trace, _, _ = rest.partition("first gate")
    passed = {
        module
        for pair in re.findall(r"^    \d+ (\S+) -> (\S+): ", trace, re.MULTILINE)
        for module in pair
        if module != "outside"
    }
    assert len(passed) > 10
    text = ARCHITECTURE.read_text(encoding="utf-8")
    _, _, walk = text.partition("## One document")
    walk, _, _ = walk.partition("## One gate")
    assert passed <= {*re.findall(r"`([\w.]+)`", walk)}
