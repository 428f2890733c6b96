"""Messages with several parts: text, images and text files.

A message's content stays text; its files are listed next to it, with their places in
the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pytest_evals.errors import DocumentError, unknown_name

Kind = Literal["image", "text"]


class PlacedFile(NamedTuple):
    """A file in a message of a prompt."""

    kind: Kind  # an image, or a text file whose text becomes part of the message
    message: int  # position of the message
    at: int  # number of characters in front of it in the text of the message
    source: str  # path; or an image's data: URL
    name: str = ""  # path for reports, empty for a URL
    detail: str = ""  # OpenAI's detail of an image, empty for the server's default


def split_content(content: Sequence[Any], message: int) -> tuple[str, list[PlacedFile]]:
    """Return the text of a list of parts, and its files.

    Text parts that follow each other are lines. Images have OpenAI's form, or ``{type:
    image, path: photo.png}``; text files are ``{type: text, path: notes.txt}``.

    Raises:
        DocumentError: A part is invalid.
    """
    text, files, is_text = "", list[PlacedFile](), False
    for part in content:
        kind, value, file = _part(part)
        if kind == "text" and is_text:
            text += "\n"
        is_text = kind == "text"
        if file is None:
            text += value
        else:
            files.append(file._replace(message=message, at=len(text)))
    return text, files


def _part(part: Any) -> tuple[Kind, str, PlacedFile | None]:
    if isinstance(part, str):
        return "text", part, None
    given: dict[Any, Any] = dict(part) if isinstance(part, Mapping) else {}
    kind = given.pop("type", None)
    detail, path = given.pop("detail", ""), given.pop("path", None)
    if kind == "image_url" and path is None:
        url = given.pop("image_url", None)
        if isinstance(url, Mapping):
            detail, url = url.get("detail", ""), url.get("url")
        if isinstance(url, str) and url and not given:
            return "image", "", _placed("image", url, detail)
    elif kind == "image" and isinstance(path, str) and path and not given:
        return "image", "", _placed("image", path, detail, path)
    elif kind == "text" and not detail:
        text = given.pop("text", None)
        if isinstance(text, str) and path is None and not given:
            return "text", text, None
        if isinstance(path, str) and path and text is None and not given:
            return "text", "", _placed("text", path, "", path)
    elif kind not in _KINDS:
        raise DocumentError(
            f"{unknown_name('type of a part', str(kind), _KINDS)}\n  fix: {_FIX}"
        )
    raise DocumentError(f"a part of a message is invalid: {part!r:.80}\n  fix: {_FIX}")


def _placed(kind: Kind, source: str, detail: Any, name: str = "") -> PlacedFile:
    if detail not in _DETAILS:
        raise DocumentError(unknown_name("detail", str(detail), _DETAILS[1:]))
    return PlacedFile(kind, 0, 0, source, name, detail)


_KINDS = ("text", "image", "image_url")
_DETAILS = ("", "auto", "low", "high")
_FIX = (
    "{type: text, text: …}, {type: text, path: notes.txt} or "
    "{type: image, path: photo.png}"
)
