"""Run cases, each in a separate process with limits, and check how they ended. Most
processes are forked from this one, which has already imported the modules of a run:
that takes a tenth of the time. This module must not start threads."""

from __future__ import annotations

import atexit
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from tests.fuzz.cases import Case, gates_of, make
from tests.fuzz.planted import leaks, serve

__all__ = ["Failure", "Outcome", "attack", "judge", "prepare", "run", "shrink"]

CPU_S = 20
WALL_S = 60
"""A run that uses no CPU waits for something; other processes may slow it down, too."""
MEMORY = 6 * 2**30
LIBRARIES = (
    "datasets",
    "jinja2",
    "numpy",
    "pandas",
    "pyarrow.json",
    "scipy.optimize",
    "scipy.stats",
    "yaml",
)
QUIET = {
    "COLUMNS": "100",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
SET_OUTSIDE = (
    "CI",
    "BUILD_NUMBER",
    "GITHUB_ACTIONS",
    "OPENAI_API_KEY",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTEST_XDIST_WORKER",
    "PYTEST_CURRENT_TEST",
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: exit code (negative for a signal), output, seconds,
    results, and where its secrets were found."""

    code: int
    output: str
    seconds: float
    timed_out: bool
    results: str = ""
    leaks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A case that ended incorrectly: ``key`` is equal for equal faults."""

    case: Case
    outcome: Outcome
    kind: str
    key: str


def prepare() -> Path:
    """Set up this process for forking; return the folder for library caches."""
    home = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for name in SET_OUTSIDE:
        os.environ.pop(name, None)
    os.environ |= {**QUIET, "HF_HOME": str(home / "hf"), "TMPDIR": str(home)}
    root = str(Path(__file__).parent.parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    tempfile.tempdir = None
    atexit.register(os.kill, serve(), signal.SIGKILL)
    for name in LIBRARIES:
        import_module(name)
    package = import_module("pytest_evals")
    for module in walk_packages(package.__path__, "pytest_evals."):
        if ".models." not in module.name or "scripted" in module.name:
            import_module(module.name)
    return home


def attack(
    seed: int, numbers: range, jobs: int, suite: str = ""
) -> Iterator[tuple[Case, Outcome]]:
    """Run the cases of a seed, several at a time; yield each when it has ended."""
    waiting = iter(numbers)
    running: list[_Run] = []
    try:
        while True:
            while len(running) < jobs and (number := next(waiting, None)) is not None:
                running.append(_Run(make(seed, number, suite)))
            if not running:
                return
            for process in tuple(running):
                if outcome := process.poll():
                    running.remove(process)
                    process.close()
                    yield process.case, outcome
            time.sleep(0.01)
    finally:
        for process in running:
            process.close()


def run(case: Case) -> Outcome:
    """Run one case."""
    with closing(_Run(case)) as process:
        while not (outcome := process.poll()):
            time.sleep(0.01)
    return outcome


class _Run:
    """A process that runs a case, in a separate folder."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._top = Path(tempfile.mkdtemp(prefix="case-"))
        self._folder = self._top / "a" / "work"  # paths with .. stay inside
        self._folder.mkdir(parents=True)
        case.write(self._folder)
        self._output = self._top / "output"
        self._started = time.monotonic()
        self._timed_out = self._ended = False
        arguments = ["-p", "pytest_evals.plugin.hooks"]
        if case.how == "workers":
            arguments += ["-p", "xdist.plugin", "-n", "2"]
        arguments += [_surrogates(text) for text in case.arguments]
        if case.how == "fork":
            # pytest warns that this process has imported the plugin before it.
            arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
            self._pid = self._fork(arguments)
        else:
            self._pid = self._start(arguments)

    def close(self) -> None:
        """End the process if it still runs, and remove its files."""
        if not self._ended:
            os.killpg(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        shutil.rmtree(self._top, ignore_errors=True)

    def _fork(self, arguments: list[str]) -> int:
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return pid
        code = 99
        try:
            self._limit()
            output = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(output, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.argv = ["pytest", *arguments]
            os.chdir(self._folder)
            os.environ |= self.case.environment
            import pytest

            code = int(pytest.main(arguments))
        except BaseException:  # noqa: BLE001 - any exception of the run
            import traceback

            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
            os._exit(code)

    def _start(self, arguments: list[str]) -> int:
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *arguments],
                cwd=self._folder,
                env=os.environ | self.case.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=self._limit,
            )
        return self._process.pid

    def _limit(self) -> None:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))

    def poll(self) -> Outcome | None:
        """The outcome, once there is one."""
        seconds = time.monotonic() - self._started
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            if seconds > WALL_S:
                self._timed_out = True
                os.killpg(self._pid, signal.SIGKILL)
            return None
        self._ended = True
        code = os.waitstatus_to_exitcode(status)
        output = self._output.read_bytes().decode("utf-8", "backslashreplace")
        results = "\n".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in self._folder.rglob("results.json")
            if path.is_file()
        )
        found = leaks(self.case.secrets, output, self._folder, set(self.case.files))
        return Outcome(code, output, seconds, self._timed_out, results, tuple(found))


def _surrogates(text: str) -> str:
    """An argument as a process receives it: bytes that are not UTF-8 are surrogates."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")


OURS = re.compile(
    r'^(?:[E ]*File ")?\S*pytest_evals/(\S+?\.py)(?::\d+: |", line \d+)(.*)$',
    re.MULTILINE,
)
OUR_FRAME = re.compile(r'File "\S*pytest_evals/(\S+?\.py)", line \d+, in (\S+)')
ERROR_LINE = re.compile(
    r"^(?:E   |INTERNALERROR> )?(\w[\w.]*(?:Error|Exception|Interrupt|Exit)\b.*)$",
    re.MULTILINE,
)


def judge(case: Case, outcome: Outcome) -> Failure | None:
    """Describe an incorrect end of a case, if any."""
    kind, what = _fault(case, outcome)
    if outcome.leaks:
        kind, what = "leak", f"{outcome.leaks[0]}: {_changes(case)}"
    return Failure(case, outcome, kind, f"{kind} {what}") if kind else None


def _fault(case: Case, outcome: Outcome) -> tuple[str, str]:
    text = outcome.output
    if outcome.timed_out or outcome.code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "hang", _changes(case)
    if outcome.code < 0:
        return signal.Signals(-outcome.code).name, _changes(case)
    for mark in ("INTERNALERROR", "Exception ignored in"):
        if mark in text:
            return mark, _where(text)
    if OURS.search(text) and not _theirs(case, text):
        return "traceback", _where(text)
    if outcome.code == 0 and case.judges and (lost := _lost_gate(case, outcome)):
        return "lost gate", f"{lost}: {_changes(case)}"
    return "", ""


def _names(case: Case, text: str) -> bool:
    """Whether a warning names a file of a suite whose gate must fail."""
    names = {re.escape(Path(name).name) for name in case.files if "passes" not in name}
    return re.search(rf"(?:{'|'.join(names)})(?::\d+)?: \w", text) is not None


def _lost_gate(case: Case, outcome: Outcome) -> str:
    if case.suite == "structure":
        return "" if _names(case, outcome.output) else "of quiz"
    if re.search(r"\.ya?ml:\d+: looks like|\.py:\d+: has evals", outcome.output):
        return ""  # a task is missing, and the reason is reported
    for name, gate in gates_of(case):
        match = re.search(rf"{re.escape(Path(name).name)}:\d+", outcome.output)
        if not match and gate not in outcome.output and gate not in outcome.results:
            return gate
    return ""


def _theirs(case: Case, text: str) -> bool:
    """Whether a traceback comes from the user's Python code, called through the
    package."""
    if case.suite == "secrets":
        return True
    return "conftest.py" in case.files and "ImportError while loading conftest" in text


def _changes(case: Case) -> str:
    return "; ".join(re.sub(r"\d+", "N", change)[:70] for change in case.changes)


def _where(text: str) -> str:
    """The last frame of the package and the error, without numbers."""
    frames = [*OUR_FRAME.finditer(text)] or [*OURS.finditer(text)]
    frame = " ".join(frames[-1].groups()) if frames else ""
    errors = ERROR_LINE.findall(text)
    return re.sub(
        r"\d+|'[^']*'|\"[^\"]*\"", "N", f"{frame} {errors[-1][:60] if errors else ''}"
    )


def shrink(failure: Failure) -> Failure:
    """The same failure with as few changes as possible."""
    best = failure
    for step in list(failure.case.steps):
        if len(best.case.steps) == 1:
            break
        case = replace(best.case, steps=[s for s in best.case.steps if s != step])
        case.build()
        found = judge(case, run(case))
        if found and found.kind == failure.kind:
            best = found
    return best
