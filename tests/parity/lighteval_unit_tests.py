"""Run lighteval's own unit tests against the shims.

    python tests/parity/lighteval_unit_tests.py FOLDER [REPOSITORY]

Downloads the source distribution of lighteval 0.13.0 from the package index into FOLDER
and runs its tests of metrics, with this package's shims in place of lighteval; with
``REPOSITORY``, a checkout of lighteval at that release, also those of its tests that
the distribution lacks: of metrics with their cases, extraction, normalization,
templates and reasoning tags. Fails if a test fails that is not listed in ``DIFFERENT``,
or passes although it is.

The other tests are about lighteval's installation, models, pipeline, registry, cache
and prompts, which are not used here, or read values that are neither in the
distribution nor in a checkout without Git LFS. Without a checkout, the values in
``vectors``, recorded for other inputs, stand for its tests.
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

from pytest_evals.dialects.module_loader import StandInImports
from pytest_evals.guests.lighteval.shims import NAMES, find_export

VERSION = "0.13.0"
FILES = ("test_unit_base_metrics.py",)
MORE = (
    "unit/metrics/test_automated_metrics_pytest.py",
    "unit/metrics/test_extractive_match.py",
    "unit/metrics/test_normalizations.py",
    "unit/tasks/templates",
    "unit/utils/test_utils.py",
)
_OWN_DOCUMENTS = "references are those of each document; lighteval transposes them"
_MATH_VERIFY = "math-verify 0.9 compares lists of values otherwise than its 0.5"
DIFFERENT = {
    "test_prob": "Probability is that of the correct choices; lighteval takes the most "
    "likely of all choices, or other reductions of all",
    "chrf.json": _OWN_DOCUMENTS,
    "chrf_plus.json": _OWN_DOCUMENTS,
    "ter.json": _OWN_DOCUMENTS,
    "multi_f1_numeric.json": "F1 of each label; lighteval takes the mean of "
    "one-versus-rest F1s that also count the rest (published: true does, too)",
    "g_pass_at_k_latex.json": "math-verify rounds an irrational number to compare it "
    "with a decimal one",
    "p = 5, q = 2": _MATH_VERIFY,
    "{2,3}$-1": _MATH_VERIFY,
    "{1,2,3}$-0": _MATH_VERIFY,
    "bleurt.json": "the model is not downloaded",
}
"""Test, or a part of its parameters → why it differs."""
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
            name = report.nodeid.partition("::")[2]
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
        # Python 3.11.4 has the filter.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        file.extractall(folder, **safe)
    return [str(folder / name / "tests" / one) for one in FILES]


def listed(name: str) -> str:
    """The entry of ``DIFFERENT`` about a test; empty if there is none."""
    return next((one for one in DIFFERENT if one in name), "")


def main() -> None:
    """Run the tests and compare their outcomes with the list."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    paths = tests(folder)
    paths += [str(Path(one, "tests", more)) for one in sys.argv[2:] for more in MORE]
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.meta_path.insert(0, Shims())
    found = Outcomes()
    options = ["-q", "-c", os.devnull, "--rootdir", str(folder), "--tb=short"]
    status = pytest.main([*options, *paths], plugins=[found])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"the tests did not run: {status!r}")
    for name in sorted(found.names["failed"]):
        print(f"differs: {name}: {DIFFERENT.get(listed(name), 'not listed')}")
    new = [name for name in found.names["failed"] if not listed(name)]
    gone = [name for name in found.names["passed"] if listed(name)]
    if new or gone or not found.names["passed"]:
        raise SystemExit(f"new differences: {sorted(new)}; equal now: {sorted(gone)}")


if __name__ == "__main__":
    main()
