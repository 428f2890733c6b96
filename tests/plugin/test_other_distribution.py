"""The distribution pytest-evals installs a package of the same name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import pytest_evals.plugin

MESSAGE = [
    "ERROR: pytest-evals and pytest-model-evals both install the package pytest_evals "
    "and overwrite each other",
    "  fix: pip uninstall pytest-evals pytest-model-evals, then install the one you "
    "want",
]
# its files in version 0.3.4, reduced to the relevant ones
METADATA = "Metadata-Version: 2.4\nName: pytest-evals\nVersion: 0.3.4\n"
ENTRY_POINTS = "[pytest11]\nevals = pytest_evals.plugin\n"
INIT = "from .plugin import eval_bag, eval_results\n"


@pytest.fixture
def site(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed distributions, before all others."""
    info = pytester.path / "site" / "pytest_evals-0.3.4.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    ours = Path(pytest_evals.plugin.__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{info.parent}{os.pathsep}{ours}")
    return info.parent


@pytest.mark.slow
def test_the_other_distribution_installed_first_is_a_usage_error(pytester, site):
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == MESSAGE


@pytest.mark.slow
def test_the_other_distribution_installed_last_is_a_usage_error(pytester, site):
    """Its ``__init__.py`` has replaced this package's, and this package's folder
    ``plugin`` hides its module of that name."""
    plugin = site / "pytest_evals" / "plugin"
    plugin.mkdir(parents=True)
    shutil.copy(pytest_evals.plugin.__file__, plugin)
    (plugin.parent / "__init__.py").write_text(INIT)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == MESSAGE
