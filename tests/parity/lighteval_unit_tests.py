"""Run lighteval's own unit tests against the shims.

    python tests/parity/lighteval_unit_tests.py FOLDER

Downloads the source distribution of lighteval 0.13.0 from the package index into FOLDER
and runs its tests of metrics, with this package's shims in place of lighteval. Fails if
a test fails that is not listed in ``DIFFERENT``, or passes although it is.

Of the other test files, the source distribution has two that are not run:
``test_dependencies.py`` is about lighteval's own installation, and
``test_unit_harness_metrics.py`` reads reference values that are not in the
distribution. The tests of extraction, normalization, templates and metrics that only
lighteval's repository has are covered by the values in ``vectors``, recorded for other
inputs.
"""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_evals.dialects.lighteval.shims import NAMES, find_export
from pytest_evals.dialects.module_loader import StandInImports

VERSION = "0.13.0"
FILES = ("test_unit_base_metrics.py",)
DIFFERENT = {
    "test_prob": "Probability is that of the correct choices; lighteval takes the most "
    "likely of all choices, or other reductions of all",
}
"""Test → why it differs."""
PACKAGES = ("lighteval", "aenum")


class Shims:
    """Imports the shims for the whole process."""

    def __init__(self) -> None:
        self._imports = StandInImports(PACKAGES, NAMES, self._missing, self._missing_in)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._imports.module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """The names of a shim are there from the start."""

    def _missing(self, module: str, name: str) -> Any:
        found = find_export(module, name)
        if found is None:
            raise AttributeError(f"no shim for {module}.{name}")
        return found

    def _missing_in(self, name: str) -> Any:
        module, _, last = name.rpartition(".")
        found = find_export(module, last)
        if found is None:
            raise ModuleNotFoundError(f"no shim for {name}", name=name)
        return found


class Outcomes:
    """Names of the tests by outcome."""

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {"passed": set(), "failed": set()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            name = report.nodeid.rpartition("::")[2]
            self.names.setdefault(report.outcome, set()).add(name)


def tests(folder: Path) -> list[str]:
    """The paths of the tests, after the download."""
    name = f"lighteval-{VERSION}"
    archive = folder / f"{name}.tar.gz"
    if not archive.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--no-binary", "lighteval", f"lighteval=={VERSION}"]
        subprocess.run([*pip, "--dest", folder], check=True)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return [str(folder / name / "tests" / one) for one in FILES]


def main() -> None:
    """Run the tests and compare their outcomes with the list."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    paths = tests(folder)
    sys.meta_path.insert(0, Shims())
    found = Outcomes()
    options = ["-q", "-c", os.devnull, "--rootdir", str(folder), "--tb=short"]
    status = pytest.main([*options, *paths], plugins=[found])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"the tests did not run: {status!r}")
    for name, why in DIFFERENT.items():
        print(f"differs: {name}: {why}")
    new = found.names["failed"] - DIFFERENT.keys()
    gone = found.names["passed"] & DIFFERENT.keys()
    if new or gone or not found.names["passed"]:
        raise SystemExit(f"new differences: {sorted(new)}; equal now: {sorted(gone)}")


if __name__ == "__main__":
    main()
