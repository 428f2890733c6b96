"""How many responses a run has stored, counted when all of its processes are done."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from pytest_evals.store.database import connect, own_place
from pytest_evals.store.responses import NAME


def stored_since(base: Path, moment: float) -> int:
    """Responses that were stored since a moment, whichever process has stored them; 0
    where the store cannot be read.

    Args:
        base: The results folder.
        moment: Unix time.
    """
    try:
        with closing(connect(own_place(base / NAME))) as connection:
            ((n,),) = connection.execute(
                "SELECT count(*) FROM responses WHERE stored >= ?", [moment]
            ).fetchall()
    except (OSError, sqlite3.Error):
        return 0
    return int(n)
