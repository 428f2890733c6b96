"""The results folder: ``runs/<time>-<model>/`` with ``results.json`` and
``samples_<task>.jsonl``.

The folder is created with the first file. Sessions that start at the same time get
separate folders.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from pytest_evals.errors import StoreError
from pytest_evals.masking.registry import hidden
from pytest_evals.store.files import (
    append_lines,
    make_base,
    make_folder,
    replace_bytes,
    write_json,
)

_OPTION = "--evals-dir"
_UNSAFE = re.compile(r'["<>:/|\\?*\[\]\s\x00-\x1f\x7f]+')
_NO_WORD = re.compile(r"\W")  # lm-eval 0.4.13, utils.py, sanitize_task_name
_DOC_ID = re.compile(rb'\{"doc_id": ?(\d+)')
_LINES = 1024  # Lines of a samples file that are written at once
_LONGEST = 120
"""Maximum bytes of a model or a task in a file name; file systems allow 255."""
_MOST_AT_ONCE = 1000
"""Maximum number of folders for one model and second; more indicate an error."""


class RunFolder:
    """The folder of one session."""

    def __init__(
        self, base: Path, model: str, started: float, place: Path | None = None
    ) -> None:
        """Choose the folder, ``place`` or one that is named after the time in UTC and
        the last part of the path in the model's spec; it is created with the first
        file. ``started``: Unix time."""
        self._base, self._place = base, place
        when = datetime.fromtimestamp(started, UTC)
        self._name = f"{when:%Y%m%d-%H%M%S}-{_model_name(model)}"
        self._path: Path | None = None
        self._files: dict[str, str] = {}

    @property
    def path(self) -> Path | None:
        """Return the folder, ``None`` if nothing has been written."""
        return self._path

    @property
    def files(self) -> dict[str, str]:
        """Return the name of the samples file of each task."""
        return dict(self._files)

    def append_samples(self, task: str, lines: Iterable[str]) -> None:
        """Append documents to the task's file, each as a line of strict JSON."""
        self.append(self._file(task), lines)

    def append(self, name: str, lines: Iterable[str]) -> None:
        """Append lines to a file; ``StoreError`` if they cannot be written: the file
        then contains none of them."""
        append_lines(self._made() / name, lines, _OPTION)

    def sort_samples(self, replaced: Mapping[str, Mapping[int, int]]) -> None:
        """Sort the lines of each file by ``doc_id``; ``StoreError`` if one cannot be
        read or replaced, which is left unchanged. ``replaced``: task → documents that
        were written several times, with the number of their last lines, which are
        kept."""
        for task, name in self._files.items():
            path = self._made() / name
            try:
                with path.open("rb") as stream:
                    lines = _sorted_lines(stream, replaced.get(task, {}))
                    replace_bytes(path, lines, _OPTION)
            except OSError as error:
                raise StoreError(f"cannot read {str(path)!r}: {error}") from error

    def write(self, name: str, data: Mapping[str, Any]) -> None:
        """Write a JSON file atomically, in place of an earlier one; ``StoreError`` if
        it cannot be written."""
        write_json(self._made() / name, data, _OPTION)

    def write_file(self, name: str, content: bytes) -> None:
        """Write another file of the run; ``StoreError`` if it cannot be written."""
        replace_bytes(self._made() / name, [content], _OPTION)

    def _file(self, task: str) -> str:
        """Return a file name for a task, unique even if two names differ only in
        characters that file systems treat as equal."""
        if task not in self._files:
            stem = f"samples_{_short(_NO_WORD.sub('_', task))}"
            taken = {name.casefold() for name in self._files.values()}
            name, n = f"{stem}.jsonl", 1
            while name.casefold() in taken:
                n += 1
                name = f"{stem}-{n}.jsonl"
            self._files[task] = name
        return self._files[task]

    def _made(self) -> Path:
        if self._path is None:
            if self._place is not None:
                make_folder(self._place, "--evals-run-dir")
                self._path = self._place
            else:
                make_base(self._base)
                make_folder(self._base / "runs", _OPTION)
                self._path = self._make_unique(self._base / "runs")
        return self._path

    def _make_unique(self, parent: Path) -> Path:
        for n in range(1, _MOST_AT_ONCE + 1):
            path = parent / (self._name if n == 1 else f"{self._name}-{n}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            except OSError as error:
                message = f"cannot make the folder {str(path)!r}"
                raise StoreError(
                    f"{message}: {error.strerror or error}\n"
                    f"  fix: make room, or choose another place with {_OPTION}"
                ) from error
            return path
        raise StoreError(
            f"there are {_MOST_AT_ONCE} folders called {self._name!r} in "
            f"{str(parent)!r}\n  fix: choose another place with {_OPTION}"
        )


def _model_name(spec: str) -> str:
    """Return the last part of the path in ``KIND:PATH,ARGUMENTS``, without characters
    that are invalid in file names (as lm-eval's ``sanitize_model_name``, plus white
    space)."""
    place = spec.partition(",")[0]
    place = place.partition(":")[2] or place
    if spec.startswith("serve:"):  # a command: the model that it names, or the program
        try:
            words = shlex.split(place)
        except ValueError:  # cut by a comma in quotes
            words = place.split()
        words = [word for word in words if "=" not in word] or [place]
        paths = (word for word in words[1:] if "/" in word and word[0] not in "-/")
        place = next(paths, words[0])
    last = hidden(re.split(r"[/\\]", place.rstrip("/\\"))[-1])
    return _short(_UNSAFE.sub("__", last)) or "model"


def _short(name: str) -> str:
    """Return the name; shorten a long one to its start and a hash, so that names with
    the same start differ."""
    raw = name.encode("utf-8", "ignore")
    if len(raw) <= _LONGEST:
        return raw.decode()
    digest = hashlib.sha256(raw).hexdigest()[:12]
    return f"{raw[: _LONGEST - 13].decode('utf-8', 'ignore')}-{digest}"


def _sorted_lines(stream: BinaryIO, kept: Mapping[int, int]) -> Iterator[bytes]:
    """Yield the lines of a samples file by ``doc_id``, in blocks, with known secrets
    masked. Only the positions of lines are kept in memory."""
    ids, ends = array("q"), array("q", [0])
    for line in stream:
        ids.append(_index_of(line))
        ends.append(ends[-1] + len(line))
    order = sorted(range(len(ids)), key=ids.__getitem__)
    if kept:
        last = Counter(ids)
        places = []
        for number in order:
            if last[ids[number]] <= kept.get(ids[number], last[ids[number]]):
                places.append(number)
            else:
                last[ids[number]] -= 1
        order = places
    for start in range(0, len(order), _LINES):
        lines = []
        for number in order[start : start + _LINES]:
            stream.seek(ends[number])
            lines.append(stream.read(ends[number + 1] - ends[number]))
        yield hidden(b"".join(lines).decode()).encode()


def _index_of(line: bytes) -> int:
    """Return the position in the dataset of the document of a line."""
    found = _DOC_ID.match(line)
    return int(found.group(1)) if found else 0


class SampleLines:
    """The lines of a samples file by document; only their places are in memory."""

    def __init__(self, path: Path) -> None:
        """Read the places; ``OSError`` if the file cannot be read."""
        self._stream = path.open("rb")
        self._ends = array("q", [0])
        self._lines: dict[int, list[int]] = {}
        for number, line in enumerate(self._stream):
            self._ends.append(self._ends[-1] + len(line))
            self._lines.setdefault(_index_of(line), []).append(number)

    def of(self, index: int) -> list[str]:
        """Return the lines of the document at a position in the dataset."""
        found = []
        for number in self._lines.get(index, ()):
            start, end = self._ends[number], self._ends[number + 1]
            self._stream.seek(start)
            found.append(self._stream.read(end - start).decode().rstrip("\n"))
        return found
