"""How long it takes to find one name in a tree of many task files.

    python tests/bench/index.py [--files 14000] [--tree DIR]

A tree is made, or one is given such as lm-eval's own ``lm_eval/tasks``. Its index is
built with nothing on disk, and then with what the first time has left there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from pytest_evals.frontends.index.names import Scanner

TASK = """\
include: _default_yaml
task: task_{i}
tag:
  - tag_{tag}
dataset_name: part_{i}
doc_to_text: "Question: {{{{question.strip()}}}}\\nAnswer:"
doc_to_target: answer
"""


def main() -> None:
    """Print the seconds of three builds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=14_000)
    parser.add_argument("--tree", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        tree = given.tree or _made(place / "tree", given.files)
        if given.tree is None:
            time.sleep(3)  # what has just been written is not kept
        for label in ("cold", "warm", "warm again"):
            start = time.perf_counter()
            index = Scanner(cache=place / "kept").index(tree, everything=True)
            seconds = time.perf_counter() - start
            print(f"{label}: {len(list(index))} names in {seconds:.2f} s")


def _made(tree: Path, n: int) -> Path:
    for i in range(n):
        folder = tree / f"family_{i // 100}"
        if i % 100 == 0:
            folder.mkdir(parents=True)
            (folder / "_default_yaml").write_text("dataset_path: json\n")
        (folder / f"task_{i}.yaml").write_text(TASK.format(i=i, tag=i // 10))
    return tree


if __name__ == "__main__":
    main()
