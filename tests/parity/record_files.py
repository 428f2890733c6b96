"""Record the results files that lm-eval 0.4.13 writes for some of the tasks here.

    python tests/parity/record_files.py         # all, takes a minute or two
    python tests/parity/record_files.py chat    # some

Run it by hand, in an environment with ``lm_eval[hf]==0.4.13`` and on a CPU. It runs
lm-eval's command line as a user does, and copies its output files to ``files/<run>/``:
``results.json``, and ``samples_<task>.jsonl`` for each task. Values of the machine are
removed: ``pretty_env_info`` keeps its first line, and ``git_hash`` becomes
``recorded``. ``options.json`` contains the equivalent options of this package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
TASKS = HERE / "tasks"
MODEL = "../../../example_suites/tiny"


class Run(NamedTuple):
    """A run: its name, its tasks, and the further options of lm-eval and of this
    package."""

    name: str
    tasks: tuple[str, ...]
    theirs: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


RUNS = (
    Run(
        "plain",
        (
            "gen_callable",
            "gen_filters",
            "gen_targets",
            "ll_endings",
            "mc_columns",
            "mc_judged",
            "rolling_long",
        ),
        ("--limit", "4"),
        ("--evals-limit=4",),
    ),
    Run(
        "chat",
        ("gen_prefix", "gen_votes", "mc_columns"),
        (
            *("--limit", "3", "--num_fewshot", "2", "--seed", "0,1234,1234,7"),
            *("--system_instruction", "Be brief.", "--apply_chat_template"),
            *("--gen_kwargs", "max_gen_toks=4"),
        ),
        (
            *("--evals-limit=3", "--evals-num-fewshot=2", "--evals-seed=7"),
            *("--evals-system-instruction=Be brief.", "--evals-apply-chat-template"),
            "--evals-gen-kwargs=max_gen_toks=4",
        ),
    ),
)


def main() -> None:
    """Record the runs named on the command line, or all."""
    selected = set(sys.argv[1:])
    for run in RUNS:
        if not selected or run.name in selected:
            _record(run)


def _record(run: Run) -> None:
    out = HERE / "files" / run.name
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        _ask(run, folder)
        (results,) = Path(folder).glob(".*/results_*.json")
        found = json.loads(results.read_text(encoding="utf-8"))
        found["pretty_env_info"] = found["pretty_env_info"].partition("\n")[0]
        found["git_hash"] = "recorded"
        _write(out / "results.json", found)
        for task in run.tasks:
            (samples,) = Path(folder).glob(f".*/samples_{task}_*.jsonl")
            text = samples.read_text(encoding="utf-8")
            (out / f"samples_{task}.jsonl").write_text(text, encoding="utf-8")
    model = f"hf:{MODEL},dtype=float32"
    files = [f"{task}.yaml" for task in run.tasks]
    _write(out / "options.json", [*files, f"--model={model}", *run.ours])


def _ask(run: Run, folder: str) -> None:
    """One run of lm-eval's command line, in the folder of the tasks, since it looks for
    data files in the working directory."""
    command = [
        *(sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--model_args"),
        *(f"pretrained={MODEL},dtype=float32", "--include_path", "."),
        *("--tasks", ",".join(run.tasks), "--batch_size", "16", "--device", "cpu"),
        *("--output_path", folder, "--log_samples", *run.theirs),
    ]
    offline = {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, cwd=TASKS, env={**os.environ, **offline}, check=True)


def _write(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
