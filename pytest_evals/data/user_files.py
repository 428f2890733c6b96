"""Decodes text files that a user names, and checks paths.

Standard library only, because options are read with it in every run with an eval file.
"""

from __future__ import annotations

import os
from pathlib import Path

from pytest_evals.errors import Place, Problem, TaskFileError


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without its byte order mark. Raises TaskFileError
    if the file cannot be read, or is not UTF-8."""
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TaskFileError(
            [Problem(f"cannot be read: {reason}", Place(path))]
        ) from None
    return decode_text(raw, path)


def decode_text(raw: bytes, path: Path) -> str:
    """Decode UTF-8, with or without a byte order mark. Raises TaskFileError if it is
    not UTF-8; the error has the line and the byte."""
    check_encoding(raw, path)
    return raw.decode("utf-8-sig")


def check_encoding(raw: bytes, path: Path) -> None:
    """Refuse bytes that are not UTF-8. Raises TaskFileError with the line of the first
    such byte."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        place = Place(path, raw.count(b"\n", 0, error.start) + 1)
        problem = encoding_problem("the file", place, raw[error.start])
        raise TaskFileError([problem]) from None


def encoding_problem(message: str, place: Place, byte: int = 0) -> Problem:
    """Return the problem of text that is not UTF-8. ``byte``: its first invalid byte;
    0 if it is unknown."""
    shown = f" (byte {byte:#04x})" if byte else ""
    # A byte order mark of UTF-16 has these bytes.
    code = "utf-16" if byte in (0xFE, 0xFF) else "latin1"
    fix = f"convert it, for example: iconv -f {code} -t utf-8 old > new"
    return Problem(f"{message} is not UTF-8{shown}", place, fix)


def path_error(path: Path) -> str:
    """Return why nothing can exist at a path, such as a too long name, or ""."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:  # a null byte, or a surrogate
        return str(error)
    return ""
