"""Records what lm-eval 0.4.13 makes of the groups in ``tasks/groups``.

    python tests/parity/record_groups.py               # all
    python tests/parity/record_groups.py group_forms   # some

Run it by hand, in an environment with ``lm_eval[hf]==0.4.13`` and on a CPU, when a
group or a task of one has changed. It writes ``groups/<group>.json``. lm-eval reaches
groups by name only, so all files are given as its include path.

One file: the versions, and of lm-eval's results whatever has to do with groups.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from recording import evaluated, versions, write

HERE = Path(__file__).resolve().parent
TASKS = HERE / "tasks"
MODEL = HERE.parents[1] / "example_suites" / "tiny"
KEPT = (
    "results",
    "groups",
    "group_subtasks",
    "versions",
    "n-shot",
    "higher_is_better",
)


def main() -> None:
    """Record the groups named on the command line, or all."""
    os.chdir(TASKS)  # lm-eval looks for data files from the working directory
    for path in sorted((TASKS / "groups").glob("group_*.yaml")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            _record(path)


def _record(path: Path) -> None:
    found = evaluated(path.stem, TASKS, MODEL)
    recording = {
        "versions": versions(),
        "file": path.relative_to(HERE).as_posix(),
        "found": {key: found[key] for key in KEPT if key in found},
    }
    write(HERE / "groups" / f"{path.stem}.json", recording)
    print(path.stem, found["results"][path.stem])


if __name__ == "__main__":
    main()
