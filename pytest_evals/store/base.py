"""The results folder itself, ``.evals`` by default."""

from __future__ import annotations

from pathlib import Path

from pytest_evals.store.files import make_folder, replace_text

_OPTION = "--evals-dir"
_IGNORE = """\
# Results of pytest-evals-suites. Baselines are meant to be committed, the rest is not.
*
!/baselines/
!/baselines/**
"""


def make_base(base: Path, option: str = _OPTION) -> None:
    """Make the folder if it is not there, with a ``.gitignore`` of its own.

    A folder with other things in it is the user's: what git sees of them is not ours to
    say.

    Raises:
        StoreError: It cannot be made.
    """
    if make_folder(base, option):
        replace_text(base / ".gitignore", _IGNORE, option)
