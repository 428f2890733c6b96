"""Time the lookup of one name in a tree of many task files.

    python tests/bench/index.py [--files 14000] [--tree DIR]

The tree is generated, or an existing one such as lm-eval's ``lm_eval/tasks``. Its index
is built without and with a cached index on disk; first alone, then within a pytest run
of one task with one document. That task is in a separate folder, since the data of
lm-eval's tasks is on the Hub.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_evals.dialects.task_index.index import Scanner

TASK = """\
include: _default_yaml
task: task_{i}
tag:
  - tag_{tag}
dataset_name: part_{i}
doc_to_text: "Question: {{{{question.strip()}}}}\\nAnswer:"
doc_to_target: answer
"""
ALONE = """\
task: the_one_task
dataset_path: json
dataset_kwargs:
  data_files: {test: rows.jsonl}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match}]
"""


def main() -> None:
    """Print the seconds of three builds and of four runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=14_000)
    parser.add_argument("--tree", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        tree = given.tree or _made(place / "tree", given.files)
        if given.tree is None:
            time.sleep(3)  # recently written files are not cached
        for label in ("cold", "warm", "warm again"):
            start = time.perf_counter()
            index = Scanner(cache=place / "kept").index(tree, everything=True)
            seconds = time.perf_counter() - start
            print(f"{label}: {len(list(index))} names in {seconds:.2f} s")
        alone = place / "alone"
        alone.mkdir()
        (alone / "alone.yaml").write_text(ALONE)
        (alone / "rows.jsonl").write_text('{"question": "a", "answer": "b"}\n')
        for label in ("cold", "warm", "warm again", "warm again"):
            start = time.perf_counter()
            _named(place, tree, alone)
            print(f"pytest, {label}: {time.perf_counter() - start:.2f} s")


def _named(place: Path, tree: Path, alone: Path) -> None:
    """Select the one task in both folders, with only this plugin loaded."""
    only_ours = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "pytest_evals.plugin.hooks",
    }
    command = [sys.executable, "-m", "pytest", "-q", "--model=scripted:first"]
    command += [f"--evals-include-path={folder}" for folder in (tree, alone)]
    command += ["--evals-tasks=the_one_task"]
    subprocess.run(
        command,
        cwd=place,
        env=os.environ | only_ours,
        check=True,
        stdout=subprocess.DEVNULL,
    )


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
