"""Measure the CPU time of the host work of two checkpoints with one tokenizer.

python tests/bench/host_work.py [--docs 14042] [--kind letters]

57 tasks with 5 few-shot examples, run for one checkpoint after the other, in processes
of their own and one results folder. The forward passes are left out: each request gets
the same response at once. Prints the CPU seconds of collection, rendering and encoding
of each run, and a digest of all ids: runs must agree in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

N_TASKS = 57


class Clock:
    """CPU seconds of this process by the name of the work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.digest = hashlib.sha256()

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its time added to a name."""

        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return work(*args, **kwargs)
            finally:
                took = time.process_time() - start
                self.seconds[name] = self.seconds.get(name, 0.0) + took

        return run


def pytest_configure(config: Any) -> None:
    """Measure this process."""
    from pytest_evals.core.request import Response
    from pytest_evals.models.engine import in_process_model, scorer
    from pytest_evals.run import batches

    clock = Clock()
    pending = in_process_model.PendingRequests

    def scored(self: Any, pairs: Any, texts: Any) -> Iterator[Any]:
        for pair in pairs.values():
            clock.digest.update(pair.context.tobytes() + b"|")
            clock.digest.update(pair.continuation.tobytes())
        yield [(i, Response(logprob=-1.0, greedy=False)) for i in (*pairs, *texts)]

    scorer.LoglikelihoodScorer.answer = scored  # type: ignore[method-assign]
    pending.encoded = clock.timed("encoding", pending.encoded)  # type: ignore[method-assign]
    batches.ask = clock.timed("rendering", batches.ask)
    config.pluginmanager.register(_Session(clock))


class _Session:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def pytest_sessionstart(self, session: Any) -> None:
        session.perform_collect = self._clock.timed(
            "collection", session.perform_collect
        )

    def pytest_unconfigure(self) -> None:
        clock = self._clock
        seen = {**clock.seconds, "process": time.process_time()}
        seen["digest"] = clock.digest.hexdigest()[:12]
        Path(os.environ["HOST_WORK"]).write_text(json.dumps(seen))


def _write(folder: Path, kind: str, n_docs: int) -> None:
    import random_models
    import synthetic_tasks

    (folder / "pytest.ini").write_text("[pytest]\n")
    make = {"letters": synthetic_tasks._letters, "full": synthetic_tasks._full_text}
    (folder / "evals").mkdir()
    for task in range(N_TASKS):
        n = len(range(task, n_docs, N_TASKS))
        one = make[kind](f"subject_{task:02}", n, 10 * task)
        synthetic_tasks._write(folder / "evals", *one)
    random_models.make_model("5m", folder / "step-1")
    shutil.copytree(folder / "step-1", folder / "step-2")
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "step-2" / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"] * 1.01
    save_file(weights, folder / "step-2" / "model.safetensors", {"format": "pt"})


def _run(folder: Path, model: str, *more: str) -> dict[str, Any]:
    out = folder / "host_work.json"
    environment = {
        **os.environ,
        "HOST_WORK": str(out),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "host_work"]
    command += ["evals", "--no-summary", "-p", "no:cacheprovider", *more]
    command += [f"--model=hf:./{model},dtype=float32"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return dict(json.loads(out.read_text()))


def main() -> None:
    """Run both checkpoints, and print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=14_042)
    parser.add_argument("--kind", choices=["letters", "full"], default="letters")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name)
        if not (folder / "evals").exists():
            folder.mkdir(exist_ok=True)
            _write(folder, given.kind, given.docs)
        print("checkpoint  collection  rendering  encoding    sum  process  ids")
        for model in ("step-1", "step-2"):
            seen = _run(folder, model)
            parts = [seen[one] for one in ("collection", "rendering", "encoding")]
            numbers = [*parts, sum(parts), seen["process"]]
            widths = (10, 9, 8, 5, 7)
            shown = "  ".join(
                f"{n:{w}.2f}" for n, w in zip(numbers, widths, strict=True)
            )
            print(f"{model:10}  {shown}  {seen['digest']}")


if __name__ == "__main__":
    main()
