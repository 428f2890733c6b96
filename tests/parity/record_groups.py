"""Record lm-eval 0.4.13's results for the groups in ``tasks/groups`` and in the example
suites.

    python tests/parity/record_groups.py               # all
    python tests/parity/record_groups.py group_forms   # some

Run it by hand, in an environment with ``lm_eval[hf]==0.4.13`` and on a CPU, when a
group or a task of one has changed. It writes ``groups/<group>.json``. lm-eval reaches
groups by name only, so all files of a tree are given as its include path.

One file: the versions, the group's file, the tree, and the parts of lm-eval's results
that concern groups.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from recording import evaluated, versions, write

HERE = Path(__file__).resolve().parent
SUITES = HERE.parents[1] / "example_suites"
TREES = (HERE / "tasks", SUITES / "lm_eval")
MODEL = SUITES / "tiny"
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
    for tree in TREES:
        os.chdir(tree)  # lm-eval looks for data files from the working directory
        for path in sorted((tree / "groups").glob("*.yaml")):
            lines = path.read_text(encoding="utf-8").splitlines()
            is_group = any(line.startswith("group:") for line in lines)
            if is_group and (not sys.argv[1:] or path.stem in sys.argv[1:]):
                _record(path, tree)


def _record(path: Path, tree: Path) -> None:
    found = evaluated(path.stem, tree, MODEL)
    recording = {
        "versions": versions(),
        "file": os.path.relpath(path, HERE),
        "tree": os.path.relpath(tree, HERE),
        "found": {key: found[key] for key in KEPT if key in found},
    }
    write(HERE / "groups" / f"{path.stem}.json", recording)
    print(path.stem, found["results"][path.stem])


if __name__ == "__main__":
    main()
