"""Task classes give lm-eval's numbers without lm-eval installed.

The recordings are those of the other parity tests. They are compared in a new Python
process in which an import finder hides ``lm_eval``: the classes of
``tasks/task_classes.py``, and each other task file as a class that adds nothing to it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
FILES = ("tests/parity/test_parity.py", "tests/parity/as_classes.py")
RECORDINGS = "py_ or (as_classes and not bos)"


@pytest.mark.nightly
def test_all_recordings_are_met(without_lm_eval):
    command = [sys.executable, "-c", without_lm_eval + RUN, "-p", "no:cacheprovider"]
    # libraries that only other tests need are not imported
    command += ["--confcutdir=tests/parity", "-m", "", "-k", RECORDINGS]
    done = subprocess.run(
        [*command, *FILES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for file in FILES:
        assert re.search(rf"^{file} \.{{20}}", done.stdout, re.MULTILINE), file
