"""What a run was made with: versions of libraries, Python, the platform, and the commit
of the working directory. It looks and never fails.
"""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from typing import Any

__all__ = ["environment"]

_LIBRARIES = ("pytest", "torch", "transformers", "datasets", "numpy")
_TIMEOUT_S = 5


def environment() -> dict[str, Any]:
    """Fields for the top level of ``results.json``; ``None`` where nothing is known.

    Nothing is imported for it: versions come from the installed distributions.
    """
    versions = {name: _version(name) for name in _LIBRARIES}
    return {
        "git_hash": _commit(),
        "transformers_version": versions["transformers"],
        "pytest_evals_version": _version("pytest-evals-suites"),
        "python_version": platform.python_version(),
        "platform": platform.platform(),
        "library_versions": versions,
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the working directory, as ``git describe --always`` names it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
