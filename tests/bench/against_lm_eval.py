"""Compare the cost of the same tasks in this package and in lm-eval 0.4.13.

    python tests/bench/against_lm_eval.py [--model 60m] [--docs 100]
        [--tasks letters,generation] [--lm-eval-python PATH] [--device cuda:0]
        [--dtype bfloat16] [--params 1b]

Creates a model with random weights and synthetic tasks, runs each kind of task through
both harnesses in new processes, one after the other, and prints their costs and whether
their numbers agree. Both write their results and samples to disk. On a shared machine,
use --clock cpu and OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import compileall
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import agreement
from random_models import SIZES, make_model
from synthetic_tasks import KINDS, make_tasks

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one process.

    Args:
        all_s: From its start to its end: wall time or CPU time.
        start_s: From its start until the model is loaded.
        inference_s: Inside the model: from prompts to responses.
        n_read: Tokens processed by the network, padding included.
        n_padding: Padding tokens among them.
        peak_mib: Peak memory of the process.
        gpu_mib: Peak memory that torch allocated on the device.
    """

    all_s: float
    start_s: float
    inference_s: float
    n_read: int
    n_padding: int
    peak_mib: float
    gpu_mib: float

    @property
    def rest_s(self) -> float:
        """Time outside start-up and model: prompts, scores, results, files."""
        return self.all_s - self.start_s - self.inference_s


def run(command: list[str], folder: Path, path: str, clock: str) -> Cost:
    """Run a harness in a separate process.

    Raises:
        SystemExit: It failed.
    """
    seen = folder / "seen.json"
    environment = {
        **os.environ,
        "TIMED_RUN": str(seen),
        "PYTHONPATH": path,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder.parent / "hf"),
        "TOKENIZERS_PARALLELISM": os.environ.get("TOKENIZERS_PARALLELISM", "true"),
        # Disable other plugins of a developer's environment.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    with (folder / "output.txt").open("w") as output:
        began = time.time()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.time() - began
    code = process.returncode = os.waitstatus_to_exitcode(status)
    if code != 0:
        print((folder / "output.txt").read_text()[-4000:], file=sys.stderr)
        raise SystemExit(f"{command[:3]} ended with {code}")
    found = json.loads(seen.read_text())
    by_cpu = clock == "cpu"
    opened_s = found["opened"][0] - began
    return Cost(
        all_s=usage.ru_utime + usage.ru_stime if by_cpu else wall_s,
        start_s=found["opened"][1] if by_cpu else opened_s,
        inference_s=found["inference"][by_cpu],
        n_read=found["n_read"],
        n_padding=found["n_padding"],
        peak_mib=usage.ru_maxrss / 1024,
        gpu_mib=found["gpu_peak"] / MIB,
    )


def run_ours(tasks: Path, model: Path, folder: Path, given: argparse.Namespace) -> Cost:
    """Run the tasks through pytest."""
    folder.mkdir(parents=True)
    spec = f"hf:{model},dtype={given.dtype}"
    if given.device:
        spec += f",device={given.device}"
    arguments = [f"--model={spec}", "--evals-json=results.json", "-q"]
    arguments += ["-p", "pytest_evals.plugin.hooks", "-p", "timed_run"]
    arguments += ["-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", str(tasks), *arguments]
    path = os.pathsep.join([str(ROOT), str(HERE)])
    (folder / "pytest.ini").write_text("[pytest]\n")
    return run([*command, "-c", "pytest.ini", "--rootdir=."], folder, path, given.clock)


def run_theirs(
    names: list[str],
    tasks: Path,
    model: Path,
    folder: Path,
    given: argparse.Namespace,
    kind: str = "hf",
) -> Cost:
    """Run the tasks through lm-eval's command line."""
    folder.mkdir(parents=True)
    command = [given.lm_eval_python, str(HERE / "timed_run.py"), "run"]
    command += ["--model", kind, "--tasks", ",".join(names)]
    command += ["--model_args", f"pretrained={model},dtype={given.dtype}"]
    command += ["--include_path", str(tasks), "--batch_size", given.batch_size]
    command += ["--output_path", "results", "--log_samples"]
    command += ["--device", given.device or "cpu"]
    path = os.pathsep.join([str(ROOT), str(HERE)])
    return run(command, folder, path, given.clock)


def main() -> None:
    """Print a table with one line per harness and kind of task."""
    given = _arguments()
    kinds = given.tasks.split(",") if given.tasks else list(KINDS)
    with tempfile.TemporaryDirectory() as name:
        place = (given.keep or Path(name)).resolve()
        model = place / f"model-{given.model}"
        make_model(given.model, model)
        print(_machine(given))
        rate = _matrix_rate(given)
        print(f"matrices are multiplied at {rate / 1e12:.2f} TFLOP/s in {given.dtype}")
        print(HEAD, flush=True)
        # lm-eval's modules were compiled when it was installed.
        compileall.compile_dir(ROOT / "pytest_evals", quiet=1)
        for kind in kinds:
            pairs = [_compare(kind, place, model, given) for _ in range(given.pairs)]
            ours = pairs[-1][0]
            if given.pairs > 1 and not given.alone:
                print(_medians([(a, b) for a, b in pairs if b is not None]))
            flops = 2 * _n_parameters(model) * ours.n_read
            share = flops / max(1e-9, ours.inference_s) / rate
            print(f"{'':11}ours reached up to {share:.0%} of that rate", flush=True)


def _compare(
    kind: str, place: Path, model: Path, given: argparse.Namespace
) -> tuple[Cost, Cost | None]:
    """Costs of this package and of lm-eval, in one pair of runs."""
    folder = place / f"run-{time.time_ns()}-{kind}"
    tasks = folder / "tasks"
    names = make_tasks(kind, tasks, given.docs)
    if given.inside:
        kind_of_model = "pytest-evals"
        ours = run_theirs(names, tasks, model, folder / "ours", given, kind_of_model)
    else:
        ours = run_ours(tasks, model, folder / "ours", given)
    if given.alone:
        print(_line(kind, "ours", ours), flush=True)
        return ours, None
    theirs = run_theirs(names, tasks, model, folder / "theirs", given)
    if given.inside:
        found = _same_results(folder / "ours", folder / "theirs")
    else:
        found = agreement.compare(folder / "ours", folder / "theirs", names)
    print(_line(kind, "lm-eval", theirs))
    print(_line("", "ours", ours))
    print(_ratios(ours, theirs))
    print(f"{'':11}{found}", flush=True)
    return ours, theirs


def _medians(pairs: list[tuple[Cost, Cost]]) -> str:
    """Medians of the columns over all pairs, and of the ratios within pairs."""
    names = ("all_s", "start_s", "inference_s", "rest_s")

    def row(who: str, values: Callable[[Cost, Cost, str], float], digits: int) -> str:
        shown = [median([values(a, b, name) for a, b in pairs]) for name in names]
        return f"{'median':11}{who:8}" + "".join(f"{v:8.{digits}f}" for v in shown)

    lines = [
        row("lm-eval", lambda ours, theirs, name: float(getattr(theirs, name)), 1),
        row("ours", lambda ours, theirs, name: float(getattr(ours, name)), 1),
        row("ratio", lambda a, b, name: getattr(b, name) / getattr(a, name), 2),
    ]
    return "\n".join(lines)


def _same_results(ours: Path, theirs: Path) -> str:
    """Whether lm-eval's results files contain the same metrics, to four digits."""

    def metrics(folder: Path) -> str:
        (path,) = folder.glob("results/**/results_*.json")
        read = json.loads(path.read_text())["results"]
        return json.dumps(read, default=str, sort_keys=True)

    def rounded(text: str) -> Any:
        return json.loads(text, parse_float=lambda number: f"{float(number):.4f}")

    mine, others = rounded(metrics(ours)), rounded(metrics(theirs))
    return f"metrics as printed are {'equal' if mine == others else 'NOT equal'}"


HEAD = (
    f"{'tasks':11}{'':8}{'all s':>8}{'start':>7}{'model':>8}{'rest':>7}"
    f"{'tokens':>10}{'padding':>9}{'peak MiB':>10}{'GPU MiB':>9}"
)


def _line(kind: str, who: str, cost: Cost) -> str:
    padding = cost.n_padding / max(1, cost.n_read)
    return (
        f"{kind:11}{who:8}{cost.all_s:8.1f}{cost.start_s:7.1f}{cost.inference_s:8.1f}"
        f"{cost.rest_s:7.1f}{cost.n_read:10,}{padding:9.1%}{cost.peak_mib:10.0f}"
        f"{cost.gpu_mib:9.0f}"
    )


def _ratios(ours: Cost, theirs: Cost) -> str:
    def times(name: str) -> float:
        return float(getattr(theirs, name)) / max(1e-9, float(getattr(ours, name)))

    return (
        f"{'':11}{'ratio':8}{times('all_s'):8.2f}{times('start_s'):7.2f}"
        f"{times('inference_s'):8.2f}{times('rest_s'):7.2f}{times('n_read'):10.2f}"
        f"{'':9}{times('peak_mib'):10.2f}"
    )


def _machine(given: argparse.Namespace) -> str:
    import platform

    import torch
    import transformers

    device = given.device or "cpu"
    what = torch.cuda.get_device_name(device) if "cuda" in device else _processor()
    threads = os.environ.get("OMP_NUM_THREADS", str(torch.get_num_threads()))
    return (
        f"model {given.model}, {given.dtype}, {given.docs} documents a task; "
        f"seconds by the {given.clock} clock; {what}, "
        f"{os.cpu_count()} cores, {threads} threads, Python "
        f"{platform.python_version()}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, lm-eval with batches of {given.batch_size}"
    )


def _matrix_rate(given: argparse.Namespace) -> float:
    """FLOP/s of large matrix products, the best of ten."""
    import torch

    device, n = given.device or "cpu", 8192 if given.device else 2048
    left = torch.rand(n, n, device=device, dtype=getattr(torch, given.dtype))
    best_s = float("inf")
    for _ in range(10):
        began = time.perf_counter()
        float((left @ left)[0, 0])  # waits for the device
        best_s = min(best_s, time.perf_counter() - began)
    return 2 * n**3 / best_s


def _n_parameters(model: Path) -> int:
    """Number of weights that take part in matrix products: all except the input
    embedding. The output layer runs at scored tokens only, so this is a slight
    overestimate."""
    from safetensors import safe_open

    with safe_open(model / "model.safetensors", framework="pt") as weights:
        names = [n for n in weights.keys() if "embed" not in n]  # noqa: SIM118
        return sum(math.prod(weights.get_slice(n).get_shape()) for n in names)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "CPU"
    names = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return next(names, "CPU").strip()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    options: Mapping[str, Any] = {
        "--docs": {"type": int, "default": 100},
        "--clock": {"choices": ["wall", "cpu"], "default": "wall"},
        "--dtype": {"default": "float32"},
        "--batch-size": {
            "default": "16",
            "help": "lm-eval's; it has no default of use",
        },
        "--device": {"default": "", "help": "for both, such as cuda:0"},
        "--tasks": {"default": "", "help": f"of {','.join(KINDS)}; all by default"},
        "--lm-eval-python": {"default": sys.executable},
        "--keep": {"type": Path, "help": "a folder for models and runs, to look at"},
        "--inside": {
            "action": "store_true",
            "help": "both in lm-eval's own run: --model pytest-evals and --model hf",
        },
        "--pairs": {"type": int, "default": 1, "help": "runs of both, in alternation"},
        "--alone": {"action": "store_true", "help": "run ours only"},
    }
    for name, how in options.items():
        parser.add_argument(name, **how)
    parser.add_argument(
        "--model", "--params", choices=sorted(SIZES), default="5m", dest="model"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
