"""Compare whole runs over images of one megapixel: this package and lm-eval 0.4.13.

    python tests/bench/images.py [--docs 60] [--rounds 3] [--lm-eval-python PATH]
    python tests/bench/images.py --docs 2000 --memory

Makes a tiny LLaVA and a Parquet file with a column of JPEG images, and runs the same
task with ``hf:`` and with lm-eval's ``hf-multimodal`` in new processes, one after the
other; lm-eval also without ``--log_samples``, which this package always writes. Prints
wall time, CPU time and peak memory of each round. The model computes almost nothing:
decoding, preparing and hashing of images are measured. ``--memory`` runs this package
once and prints its memory over time.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SIDE = 1000
TASK = """
task: pictures
dataset_path: parquet
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_image: [image]
doc_to_text: "<image>{{question}}"
doc_to_target: answer
generation_kwargs: {until: ["\\n"], max_gen_toks: 4, do_sample: false}
metric_list: [{metric: exact_match}]
"""


def main() -> None:
    """Run both, and print their costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lm-eval-python", default=sys.executable)
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, given.docs)
        model = folder / "llava"
        ours = [sys.executable, "-m", "pytest", "-q", "pictures.yaml"]
        ours += [f"--model=hf:{model}", "--evals-cache=off"]
        if given.memory:
            _watch(ours, folder)
            return
        theirs = [given.lm_eval_python, "-m", "lm_eval", "--model", "hf-multimodal"]
        theirs += ["--model_args", f"pretrained={model}", "--tasks", "pictures"]
        theirs += ["--include_path", ".", "--batch_size", "8", "--device", "cpu"]
        theirs += ["--output_path", "out"]
        commands = {
            "pytest_evals": ours,
            "lm-eval without samples": theirs,
            "lm-eval with samples": [*theirs, "--log_samples"],
        }
        for _ in range(given.rounds):
            for who, command in commands.items():
                print(who, _cost(command, folder), flush=True)


def _write(folder: Path, n: int) -> None:
    """Write the model, the images and the task."""
    import datasets
    import torch

    sys.path.insert(0, str(ROOT))
    from tests.models.images.checkpoints import FAMILIES

    torch.manual_seed(1)
    FAMILIES["llava"](folder / "llava")
    rng = np.random.default_rng(0)
    rows = [
        {
            "question": f"{i}?",
            "image": {"bytes": _photo(rng), "path": None},
            "answer": "x",
        }
        for i in range(n)
    ]
    features = datasets.Features(
        question=datasets.Value("string"),
        image=datasets.Image(),
        answer=datasets.Value("string"),
    )
    table = datasets.Dataset.from_list(rows, features=features)
    table.to_parquet(folder / "rows.parquet")
    text = TASK.replace("DATA", str(folder / "rows.parquet"))
    (folder / "pictures.yaml").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")


def _photo(rng: np.random.Generator) -> bytes:
    """A JPEG that compresses about as well as a photograph: gradients with noise."""
    from PIL import Image

    small = Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
    smooth = np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.int16)
    noisy = (smooth + rng.integers(-4, 5, smooth.shape)).clip(0, 255)
    file = BytesIO()
    Image.fromarray(noisy.astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def _watch(command: list[str], folder: Path) -> None:
    """Print the memory of a run, without pages of files, and its means over quarters of
    the time."""
    seen: list[float] = []
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            if found := re.search(r"RssAnon:\s+(\d+) kB", status):
                seen.append(int(found[1]) / 1024)  # without pages of files
            if seen and len(seen) % 20 == 0:
                print(f"{len(seen) // 2} s: {seen[-1]:.0f} MiB", flush=True)
            time.sleep(0.5)
    if process.returncode:
        raise SystemExit((folder / "output").read_text()[-2000:])
    size = len(seen) // 4
    for at in range(4):
        part = seen[at * size : (at + 1) * size]
        print(f"quarter {at + 1}: {np.mean(part):.0f} MiB, peak {max(part):.0f} MiB")


def _cost(command: list[str], folder: Path) -> str:
    started = time.monotonic()
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - started
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise SystemExit((folder / "output").read_text()[-2000:])
    cpu_s = used.ru_utime + used.ru_stime
    return f"{wall_s:.1f} s, CPU {cpu_s:.1f} s, peak {used.ru_maxrss / 1024:.0f} MiB"


if __name__ == "__main__":
    main()
