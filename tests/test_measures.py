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


@pytest.mark.parametrize(
    ("start", "end", "section"),
    [
        ("one document, pytest", "first gate", "## One document"),
        ("first gate", "modules imported", "## One gate"),
    ],
)
def test_the_architecture_names_every_module_of_a_walk(
    measures, start, end, section
) -> None:
    """Of a document and of a gate with pytest."""
    _, _, rest = measures.partition(start)
    passed = {module for pair in calls(rest.partition(end)[0]) for module in pair}
    assert len(passed) > 10
    text = ARCHITECTURE.read_text(encoding="utf-8")
    _, _, walk = text.partition(section)
    walk, _, _ = walk.partition("\n## ")
    assert passed - {"outside"} <= {*re.findall(r"`([\w.]+)`", walk)}


def calls(trace: str) -> list[tuple[str, str]]:
    """The caller and the callee of each line."""
    return re.findall(r"^    \d+ (\S+) -> (\S+): ", trace, re.MULTILINE)


def test_each_step_of_a_gate_is_entered_once(measures) -> None:
    gate = measures.partition("first gate")[2].partition("modules imported")[0]
    steps = ("gates.observations", "gates.estimate.gate", "gates.explain")
    for step in steps:
        assert [callee for _, callee in calls(gate)].count(step) == 1, step
    assert gate.count("-> gates.decide: decide\n") == 1
