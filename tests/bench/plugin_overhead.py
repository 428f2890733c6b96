"""Measure the overhead of the plugin per document, including collection and report.

    python tests/bench/plugin_overhead.py [--docs 100000] [--workers 2]

A suite of one task with documents that are trivial to render, answer or score runs
through pytest in new processes; the time of an empty session is subtracted. The rest is
collection, planning, protocol, aggregation, samples and report. The reference is an
empty test run through pytest's own protocol, which shows the current speed of the
machine. With ``--workers N`` only a run with N workers of pytest-xdist is measured: the
CPU time of each process. Turn off other plugins for both:

    PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTEST_PLUGINS=pytest_evals.plugin.hooks python …

(and ``xdist.plugin,`` in front of it for workers).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

CONFTEST = """
import os
from pathlib import Path

import pytest

from pytest_evals import Asked, Doc, Estimate, Generate, Metric, Place, Response
from pytest_evals import Score, Task

N = int(os.environ["BENCH_DOCS"])


class Rows:
    def ids(self):
        return [str(i) for i in range(N)]

    def indices(self):
        return range(N)

    def total(self):
        return N


def ask(index):
    text = f"What is {index} + 1?"
    doc = Doc(text, [str(index + 1)], 0, id=str(index), row={"n": index})
    return Asked(doc, (Generate(text, max_tokens=8),))


def score(record):
    right = record.responses[0].text == "yes"
    return (Score(metric="acc", value=float(right), correct=right, filtered=("yes",)),)


def mean(values):
    return Estimate(sum(values) / len(values), 0.0, "analytic")


class Scripted:
    name = "scripted"

    def answer(self, requests):
        yes, no = Response(text="yes", n_tokens=1), Response(text="no", n_tokens=1)
        for position in range(len(requests)):
            yield position, no if position % 10 == 0 else yes


@pytest.fixture(scope="session")
def eval_model():
    return Scripted()


def pytest_evals_load_tasks(path, config):
    if path.name != "suite.bench":
        return None
    metric = Metric(name="acc", aggregate=mean, is_mean=True, higher_is_better=True)
    return [
        Task(
            name="bench",
            source=Place(Path(path), 1),
            rows=Rows(),
            ask=ask,
            score=score,
            metrics=(metric,),
            output_type="generate_until",
        )
    ]
"""


MEASURING = """

@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    who = getattr(config, "workerinput", {}).get("workerid", "controller")
    numbers = f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}"
    Path(f"measured-{who}").write_text(numbers)
"""


YARDSTICK = """
import os

import pytest


class Nothing(pytest.Item):
    def runtest(self):
        pass


class File(pytest.File):
    def collect(self):
        for i in range(int(os.environ["BENCH_DOCS"])):
            yield Nothing.from_parent(self, name=f"bench[{i}]")


def pytest_collect_file(file_path, parent):
    if file_path.name == "suite.bench":
        return File.from_parent(parent, path=file_path)
"""


class Run(NamedTuple):
    """One process: wall time, CPU time and peak memory."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def run(folder: Path, n_docs: int, arguments: list[str]) -> Run:
    """Run pytest over the suite."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "BENCH_DOCS": str(n_docs)}
    script = (
        "import resource, subprocess, sys\n"
        "code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "u = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(code, u.ru_utime + u.ru_stime, u.ru_maxrss)\n"
    )
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - start
    code, cpu, peak = re.findall(r"[\d.]+", done.stdout)
    if code not in ("0", "5"):
        raise SystemExit(f"pytest ended with {code}: {done.stderr}")
    return Run(wall, float(cpu), float(peak) / 1024)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    n_docs = given.docs
    print(f"{n_docs} documents")
    if given.workers:
        _distribute(n_docs, given.workers)
        return
    print(f"{'':28}{'wall s':>8}{'CPU s':>8}{'peak MiB':>10}{'ms/document':>13}")
    _compare("pytest's own, no model", YARDSTICK, n_docs, [["-q"]])
    junit = ["-q", "--junitxml=j.xml"]
    _compare("pytest_evals", CONFTEST, n_docs, [["-q"], ["-v"], junit])


def _distribute(n_docs: int, n_workers: int) -> None:
    """Print one row per process of a run with workers."""
    print(f"{'':14}{'CPU s':>8}{'peak MiB':>10}{'µs/document of the run':>24}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "conftest.py").write_text(CONFTEST + MEASURING)
        (folder / "pytest.ini").write_text("[pytest]\n")
        found = []
        for _ in range(2):
            run(folder, n_docs, ["-q", f"-n{n_workers}"])
            found.append({p.name: p.read_text() for p in folder.glob("measured-*")})
            (folder / "suite.bench").write_text("")
        empty, full = found
        for name, text in sorted(full.items()):
            cpu, peak = map(float, text.split())
            each = 1e6 * (cpu - float(empty[name].split()[0])) / n_docs
            who = name.removeprefix("measured-")
            print(f"{who:14}{cpu:8.1f}{peak:10.0f}{each:24.0f}")


def _compare(name: str, conftest: str, n_docs: int, variants: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "conftest.py").write_text(conftest)
        (folder / "pytest.ini").write_text("[pytest]\n")
        empty = run(folder, n_docs, ["-q"])
        (folder / "suite.bench").write_text("")
        for arguments in variants:
            found = run(folder, n_docs, arguments)
            each = 1000 * (found.wall_s - empty.wall_s) / n_docs
            print(
                f"{name + ' ' + arguments[-1]:28}{found.wall_s:8.1f}{found.cpu_s:8.1f}"
                f"{found.peak_mib:10.0f}{each:13.3f}"
            )


if __name__ == "__main__":
    main()
