"""Measure the memory of a session that opens ten checkpoints one after the other.

python tests/bench/model_opens.py [--models 10] [-n 2]

Each checkpoint is a folder of its own with the same random weights (5 M parameters,
float32). Three evals generate text and one task scores choices. Prints the resident
memory of the process that opens the models when the first document of each one is set
up, and the outcome of the session.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import random_models

CONFTEST = """
from pathlib import Path

SEEN = set()


def pytest_runtest_setup(item):
    model = getattr(getattr(item.parent, "evals", None), "model", "")
    if model and model not in SEEN:
        SEEN.add(model)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        worker = getattr(item.config, "workerinput", {}).get("workerid", "alone")
        with open("opened.txt", "a") as file:
            file.write(f"{worker} {model} {pages * 4096 / 1e6:.0f} MB\\n")
"""
EVAL = """
prompt: "question {number} {{{{q}}}}"
target: a
generation: {{max_tokens: 8}}
rows:
  - {{q: one, a: b}}
  - {{q: two, a: c}}
  - {{q: three, a: d}}
"""
CHOICES = """
task: choices
dataset_path: json
dataset_kwargs: {data_files: {test: d.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_target: 0
doc_to_choice: ["yes", "no"]
metric_list: [{metric: acc}]
"""


def main() -> None:
    """Run a session, and print what it has opened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("-n", dest="workers", default="0")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "choices.yaml").write_text(CHOICES)
        for number in range(3):
            (folder / f"e{number}.yaml").write_text(EVAL.format(number=number))
        rows = "".join(json.dumps({"q": f"is it {n}?"}) + "\n" for n in range(4))
        (folder / "d.jsonl").write_text(rows)
        random_models.make_model("5m", folder / "m0")
        for number in range(1, given.models):
            shutil.copytree(folder / "m0", folder / f"m{number}")
        models = [f"--model=hf:./m{n},dtype=float32" for n in range(given.models)]
        command = [sys.executable, "-m", "pytest", "-q", "--no-summary", *models]
        command += ["--evals-cache=off", "-n", given.workers]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False
        )
        print((folder / "opened.txt").read_text())
        print(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
