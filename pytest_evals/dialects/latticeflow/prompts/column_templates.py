"""Fast path for templates that only insert columns into text, as most prompts do. They
are rendered without Jinja in a tenth of the time, with the same result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import nodes

Pieces = Sequence[str | tuple[str, str]]
"""Literal texts, and columns as pairs of a variable and a key."""
_PLAIN = frozenset({str, int, float, bool})
"""Types that Jinja renders like ``str``. Nulls are refused."""
_MISSING = object()


def pieces_of(body: Sequence[nodes.Node]) -> Pieces | None:
    """Return the pieces of a parsed template; ``None`` if it has other nodes."""
    pieces: list[str | tuple[str, str]] = []
    for output in body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            match node:
                case nodes.TemplateData(data=text):
                    pieces.append(text)
                case nodes.Getattr(node=nodes.Name(name=variable), attr=name):
                    pieces.append((variable, name))
                case nodes.Getitem(
                    node=nodes.Name(name=variable), arg=nodes.Const(value=str() as name)
                ):
                    pieces.append((variable, name))
                case _:
                    return None
    return tuple(pieces)


def render_pieces(pieces: Pieces, variables: Mapping[str, Any]) -> str | None:
    """Return the rendered text; ``None`` if Jinja is needed, for the value or for its
    error message."""
    parts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        variable, name = piece
        row = variables.get(variable)
        value = row.get(name, _MISSING) if type(row) is dict else _MISSING
        if type(value) not in _PLAIN:
            return None
        parts.append(str(value))
    return "".join(parts)
