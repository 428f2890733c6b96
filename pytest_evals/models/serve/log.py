"""The log of a started server: a temporary file, copied into the run's folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PREFIX, _SUFFIX = "evals-server-", ".log"


def new_log() -> str:
    """Create an empty log; return its path."""
    handle, path = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX)
    os.close(handle)
    return path


def log_of(info: Mapping[str, Any]) -> Path | None:
    """The log that a model's info names; ``None`` for any file that is not such a log,
    since the info of a custom model may contain any values."""
    server = info.get("server")
    given = server.get("log") if isinstance(server, Mapping) else None
    if not isinstance(given, str):
        return None
    path = Path(given)
    is_ours = path.name.startswith(_PREFIX) and path.suffix == _SUFFIX
    is_ours = is_ours and path.parent == Path(tempfile.gettempdir())
    return path if is_ours and not path.is_symlink() else None
