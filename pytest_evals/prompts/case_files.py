"""Files in the prompt of a case: found below the folder of the suite, and checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_evals.core.case import Case
from pytest_evals.core.content_parts import PlacedFile
from pytest_evals.core.request import PLACED_IMAGES, Message
from pytest_evals.data.images import check_image, image_digest, is_data_url
from pytest_evals.errors import DocumentError

MAX_TEXT_BYTES = 2**20  # maximum size of a text file in a prompt


class CaseFileError(DocumentError):
    """A file that a case names cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFolders:
    """Where the files of cases are. ``base``: folders to which paths are relative, in
    this order: that of the eval, that of its dataset. ``root``: folder of the suite,
    which contains all files."""

    base: Sequence[Path]
    root: Path

    def case(self, case: Case) -> Case:
        """Return a case with the text of its text files, and with the absolute paths of
        its images, which are checked. Raises DocumentError if a file is missing,
        outside of the suite, too large or of another kind."""
        if not case.files or isinstance(case.prompt, str):
            return case
        texts = {n: one.content for n, one in enumerate(case.prompt)}
        first = len(case.prompt) - 1
        texts |= {first + 2 * n: turn.user for n, turn in enumerate(case.turns)}
        images, added = list[PlacedFile](), dict.fromkeys(texts, 0)
        for file in case.files:
            n, at = file.message, file.at + added[file.message]
            if file.kind == "image":
                images.append(self._image(file)._replace(at=at))
                continue
            text = self._text(file)
            texts[n] = texts[n][:at] + text + texts[n][at:]
            added[n] += len(text)
        prompt = [Message(one.role, texts[n]) for n, one in enumerate(case.prompt)]
        turns = [
            replace(turn, user=texts[first + 2 * n])
            for n, turn in enumerate(case.turns)
        ]
        return replace(
            case, prompt=tuple(prompt), turns=tuple(turns), files=tuple(images)
        )

    def _image(self, file: PlacedFile) -> PlacedFile:
        if is_data_url(file.source) or not file.name:
            if not is_data_url(file.source):
                raise CaseFileError(
                    f"an image has the address {file.source:.60}, and what it shows "
                    "may change\n"
                    "  fix: save it, and write {type: image, path: photo.png}"
                )
            _check(file.source)
            return file
        path = self._path(file.source)
        _check(str(path))
        root = self.root.resolve()
        return file._replace(source=str(path), name=path.relative_to(root).as_posix())

    def _text(self, file: PlacedFile) -> str:
        path = self._path(file.source)
        try:
            n = path.stat().st_size
            if n > MAX_TEXT_BYTES:
                raise CaseFileError(
                    f"{file.source!r} has {n:,} bytes; a text file in a prompt may "
                    f"have {MAX_TEXT_BYTES:,}"
                )
            return path.read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise CaseFileError(f"{file.source!r} is not UTF-8 text") from None
        except OSError as error:
            raise CaseFileError(
                f"cannot read {file.source!r}: {error.strerror or error}"
            ) from None

    def _path(self, given: str) -> Path:
        """The file of a path, without links. Raises DocumentError if it does not exist,
        or is outside of the suite. A dataset chooses paths, so it must not choose any
        file."""
        root = self.root.resolve()
        try:
            places = [(folder / given).resolve() for folder in self.base]
            inside = [one for one in places if one.is_relative_to(root)]
            found = [one for one in inside if os.path.isfile(one)]
        except (OSError, ValueError) as error:  # a null character, a loop of links
            raise CaseFileError(f"invalid path {given!r:.80}: {error}") from None
        if found:
            return found[0]
        if not inside:
            raise CaseFileError(
                f"{given!r} is outside of the suite's folder {str(self.root)!r}\n"
                "  fix: copy the file into it"
            )
        raise CaseFileError(f"file not found: {given!r} in {self.base[0]}")


def _check(source: str) -> None:
    try:
        check_image(source)
    except DocumentError as error:
        raise CaseFileError(str(error)) from None


def image_option(case: Case, n_before: int) -> tuple[tuple[str, object], ...]:
    """Return the option of requests with the images of a case; empty without any.
    ``n_before``: number of messages that were added in front of the case's. Raises
    DocumentError if an image cannot be read."""
    if not case.files:
        return ()
    placed = tuple(
        (
            one.message + n_before,
            one.at,
            image_digest(one.source),
            one.detail,
            one.name,
            one.source,
        )
        for one in case.files
    )
    return ((PLACED_IMAGES, placed),)
