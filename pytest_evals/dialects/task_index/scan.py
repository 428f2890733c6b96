"""Reads the keys of a task file that name it, without its other values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from pytest_evals.data.yaml_loader import BoundedLoader

Keys = Mapping[str, str | list[str] | bool | None]
"""The scanned keys of a file. A value that is neither a string nor a list of strings is
``True``."""

_WATCHED = ("task", "group", "tag", "include", "class")
_STRING, _NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"


def scan(path: Path) -> Keys | None:
    """Return the keys of a file, without its includes.

    Returns:
        ``None`` if the file cannot be read. Of invalid YAML, such as a file that is cut
        off, the lines with names count.
    """
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    try:
        loader = BoundedLoader(raw)
        root = loader.get_single_node()
        if isinstance(root, yaml.MappingNode):
            loader.flatten_mapping(root)  # the merge key <<
    except (RecursionError, ValueError):
        return None
    except yaml.YAMLError:
        return {
            one[1].decode(): one[2].decode("utf-8", "replace") for one in _named(raw)
        }
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        return None
    return {
        key.value: _summary(value)
        for key, value in root.value
        if isinstance(key, yaml.ScalarNode) and key.value in _WATCHED
    }


def _named(raw: bytes) -> Iterator[re.Match[bytes]]:
    return re.finditer(rb"(?m)^(task|group):[ \t]+([\w./+-]+)", raw)


def _summary(node: yaml.Node) -> str | list[str] | bool | None:
    if isinstance(node, yaml.SequenceNode):
        if all(one.tag == _STRING for one in node.value):
            return [one.value for one in node.value]
    elif node.tag in (_STRING, _NULL):
        return node.value if node.tag == _STRING else None
    return True
