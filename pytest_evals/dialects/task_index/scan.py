"""Reads the keys of a task file that name it, without its other values."""

from __future__ import annotations

from collections.abc import Mapping
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
        ``None`` if the file cannot be read.
    """
    try:
        loader = BoundedLoader(path.read_bytes())
        root = loader.get_single_node()
        if isinstance(root, yaml.MappingNode):
            loader.flatten_mapping(root)  # the merge key <<
    except (OSError, RecursionError, ValueError, yaml.YAMLError):
        return None
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        return None
    return {
        key.value: _summary(value)
        for key, value in root.value
        if isinstance(key, yaml.ScalarNode) and key.value in _WATCHED
    }


def _summary(node: yaml.Node) -> str | list[str] | bool | None:
    if isinstance(node, yaml.SequenceNode):
        if all(one.tag == _STRING for one in node.value):
            return [one.value for one in node.value]
    elif node.tag in (_STRING, _NULL):
        return node.value if node.tag == _STRING else None
    return True
