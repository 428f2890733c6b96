"""PyYAML's safe loader, with limits.

Merge keys (``<<``) copy the pairs of each mapping, so a few lines of nested merges
could take exponential time and memory. Deeply nested values would overflow the C stack
of libyaml's binding and crash the process.
"""

from __future__ import annotations

from typing import Any

import yaml

DEEPEST = 100  # maximum nesting depth; deeper values would break later stages
MOST_MERGED = 100_000
"""Maximum number of pairs of one mapping, counted as often as they are merged in."""
_SUSPICIOUS = 1_000
_MERGE = "tag:yaml.org,2002:merge"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BoundedLoader(_Base):  # type: ignore[misc]  # built with libyaml or without
    """``yaml.CSafeLoader``, or ``yaml.SafeLoader`` without libyaml."""

    def __init__(self, stream: bytes | str) -> None:
        _check_depth(stream)
        super().__init__(stream)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Copy the pairs of merged mappings into this one. Raises
        yaml.constructor.ConstructorError if there are too many."""
        merges = any(key.tag == _MERGE for key, _ in node.value)
        if merges and _n_merged(node, {}) > MOST_MERGED:
            message = f"merge keys expand to more than {MOST_MERGED:,} pairs"
            raise _fault(message, node)
        super().flatten_mapping(node)


def _check_depth(stream: bytes | str) -> None:
    """Check that values are not nested too deeply. On one line, each level starts with
    a bracket, a dash or a question mark, so most files do not need to be parsed for
    this."""
    text = stream.decode("latin-1") if isinstance(stream, bytes) else stream
    if sum(map(text.count, ("[", "{", "- ", "? "))) < _SUSPICIOUS:
        return
    depth = 0
    for event in yaml.parse(stream, _Base):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST + 1:
            message = f"values are nested more than {DEEPEST} levels deep"
            raise _fault(message, event)


def _fault(message: str, where: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, message, where.start_mark)


def _n_merged(node: Any, known: dict[int, int]) -> int:
    """Return the number of pairs of a mapping after merging, or the sum over a sequence
    of mappings."""
    if id(node) not in known:
        known[id(node)] = 0  # a mapping that merges itself
        if isinstance(node, yaml.MappingNode):
            n = sum(
                _n_merged(value, known) if key.tag == _MERGE else 1
                for key, value in node.value
            )
        elif isinstance(node, yaml.SequenceNode):
            n = sum(_n_merged(one, known) for one in node.value)
        else:
            n = 0
        known[id(node)] = n
    return known[id(node)]
