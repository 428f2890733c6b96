"""Time the collection of a task file with many documents, from a cold start.

    python tests/bench/collection.py [--docs 14000]

A four-choice task over a JSONL file is collected by pytest in a new process, first with
an empty cache of ``datasets`` and then with a filled one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TASK = """\
task: many
dataset_path: json
dataset_kwargs:
  data_files: {test: many.jsonl, train: train.jsonl}
test_split: test
fewshot_split: train
num_fewshot: 5
output_type: multiple_choice
doc_to_text: "{{question.strip()}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
gates: ["acc >= 0.2"]
"""

SEES_TORCH = """
def pytest_sessionfinish():
    import sys
    print("\\ntorch imported:", "torch" in sys.modules)
"""


def row(i: int) -> str:
    """A question of the size of MMLU's."""
    question = f"Question {i}: " + "what would a reasonable person say of this? " * 6
    choices = [f"choice {c} of {i}, which is a short sentence" for c in range(4)]
    return json.dumps({"question": question, "choices": choices, "answer": i % 4})


def main() -> None:
    """Print the seconds from start to end of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=14_000)
    n_docs = parser.parse_args().docs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "many.yaml").write_text(TASK)
        (folder / "many.jsonl").write_text("\n".join(map(row, range(n_docs))))
        (folder / "train.jsonl").write_text("\n".join(map(row, range(100))))
        (folder / "conftest.py").write_text(SEES_TORCH)
        command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "many.yaml"]
        environment = {**os.environ, "HF_HOME": str(folder / "cache")}
        for label in ("empty cache", "filled cache"):
            start = time.perf_counter()
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            seconds = time.perf_counter() - start
            (torch,) = re.findall(r"torch imported: (\w+)", done.stdout)
            print(f"{n_docs} documents, {label}: {seconds:.2f} s, torch: {torch}")


if __name__ == "__main__":
    main()
