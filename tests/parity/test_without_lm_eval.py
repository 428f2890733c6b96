"""Task classes give lm-eval's numbers where lm-eval is not installed.

The recordings are those of the other parity tests. They are gone through in a fresh
Python in which a finder says of ``lm_eval`` what an environment without it says: the
classes of ``tasks/task_classes.py``, and each other task file through a class that adds
nothing to it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lm_eval":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["test_parity.py", "-k", "py_"], ["as_classes.py", "-k", "not bos"]],
    ids="-".join,
)
def test_all_recordings_are_met(arguments):
    file, *rest = arguments
    command = [sys.executable, "-c", WITHOUT, f"tests/parity/{file}", *rest]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
