"""Environment of a run: versions of libraries, Python, the platform, and the commit
of the working directory. It looks and never fails.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

_LIBRARIES = (
    "pytest",
    "torch",
    "transformers",
    "datasets",
    "numpy",
    # They decide which formulas are equal.
    "math-verify",
    "latex2sympy2_extended",
)
_TIMEOUT_S = 5
SCHEMA = "0.4.13"
"""The version of lm-eval whose schema results files have."""


def environment() -> dict[str, Any]:
    """Fields for the top level of ``results.json``; ``None`` where nothing is known.

    Nothing is imported for it: versions come from the installed distributions.
    """
    versions = {name: _version(name) for name in _LIBRARIES}
    version = _version("pytest-model-evals")
    return {
        "git_hash": _git("describe", "--always"),
        "pretty_env_info": _pretty(versions, version),
        "transformers_version": versions["transformers"] or "N/A",
        # The local part says who wrote the file; readers that compare versions can.
        "lm_eval_version": f"{SCHEMA}+pytest.model.evals.{version}",
        "upper_git_hash": _upper_commit(),
        "pytest_evals_version": version,
        "python_version": platform.python_version(),
        "platform": platform.platform(),
        "library_versions": versions,
    }


def commit_of(folder: Path) -> str:
    """Return the commit of the repository that contains a folder; empty without one."""
    return _git("-C", str(folder), "rev-parse", "HEAD") or ""


def _pretty(versions: Mapping[str, str | None], plugin_version: str | None) -> str:
    """Return the environment as text, in lm-eval's form. torch's own collector runs
    programs for seconds, and includes the host name."""
    facts = {
        "pytest-model-evals version": plugin_version,
        "PyTorch version": versions["torch"],
        "Python version": platform.python_version(),
        "Python platform": platform.platform(),
        "Number of CPUs": os.cpu_count(),
        **{f"{name} version": version for name, version in versions.items()},
    }
    return "\n".join(f"{name}: {fact or 'N/A'}" for name, fact in facts.items())


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _upper_commit() -> str | None:
    """The commit of the folder above, if the working directory is a submodule of it."""
    above = Path.cwd().parent
    return (
        _git("-C", str(above), "rev-parse", "HEAD")
        if (above / ".git").exists()
        else None
    )


def _git(*arguments: str) -> str | None:
    """Return git's output in the working directory, ``None`` without a repository."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
