"""Mutations of the files of a suite: each function changes one thing, drawn by a
seed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import PurePosixPath

import yaml

from tests.fuzz import values

__all__ = ["FOLDER", "LINK", "Files", "mutate", "replaced"]

FOLDER = b"<a folder of this name>"
LINK = b"<a link to nowhere>"

Files = MutableMapping[str, bytes]
Change = Callable[[bytes, random.Random], tuple[bytes, str] | None]


def mutate(files: Files, rng: random.Random) -> str:
    """Change one thing in one of these files, in place; return its description."""
    while True:
        name = rng.choice(sorted(files))
        if name == "pytest.ini" and rng.random() < 0.8:
            continue
        if files[name] in (FOLDER, LINK):
            continue
        if rng.random() < 0.04:
            return _other_file(files, name, rng)
        kind = PurePosixPath(name).suffix
        own = CHANGES.get(kind) if rng.random() < 0.8 else None
        change: Change = rng.choice(own or ANY)
        done = change(files[name], rng)
        if done and done[0] != files[name]:
            files[name] = done[0]
            return f"{name}: {done[1]}"


def _other_file(files: Files, name: str, rng: random.Random) -> str:
    """Delete, rename or duplicate a file, or replace it by something else."""
    path = PurePosixPath(name)
    match rng.randrange(5):
        case 0:
            del files[name]
            return f"{name}: removed"
        case 1:
            files[name] = FOLDER
            return f"{name}: a folder"
        case 2:
            files[name] = LINK
            return f"{name}: a link to nowhere"
        case 3:
            new = rng.choice((".yml", ".YAML", ".txt", ".json", ".yaml.bak", ".jsonl"))
            other = str(path.with_suffix(new))
        case _:
            other = str(path.with_stem(typo(path.stem, rng)))
    if other in files:
        return f"{name}: as it is"
    files[other] = files[name]
    if rng.random() < 0.7:
        del files[name]
        return f"{name}: renamed to {other}"
    return f"{name}: copied to {other}"


def typo(word: str, rng: random.Random) -> str:
    """A word with one typo."""
    if not word:
        return "x"
    at = rng.randrange(len(word))
    return rng.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + word[at] * 2 + word[at + 1 :],
            word[:at] + word[at:][::-1],
            word[:at] + word[at].swapcase() + word[at + 1 :],
            word + "s",
            word.replace("_", "-"),
            word + " ",
        )
    )


# Mutations of any file.


def _bytes(text: bytes, rng: random.Random) -> tuple[bytes, str]:
    at = rng.randrange(len(text) + 1)
    new = rng.choice(values.BYTES)
    cut = rng.choice((0, 0, 1))
    return text[:at] + new + text[at + cut :], f"{new!r} at byte {at}"


def _cut(text: bytes, rng: random.Random) -> tuple[bytes, str]:
    at = rng.randrange(len(text) + 1)
    return text[:at], f"cut at byte {at}"


def _hole(text: bytes, rng: random.Random) -> tuple[bytes, str]:
    at = rng.randrange(len(text) + 1)
    n = rng.randrange(1, 40)
    return text[:at] + text[at + n :], f"{n} bytes gone at byte {at}"


def _encoding(text: bytes, rng: random.Random) -> tuple[bytes, str] | None:
    name = rng.choice(("utf-16", "utf-8-sig", "latin-1", "CRLF", "CR", "empty"))
    if name == "empty":
        return b"", name
    if name.startswith("CR"):
        return text.replace(b"\n", b"\r\n" if name == "CRLF" else b"\r"), name
    try:
        return text.decode().replace("e", "é").encode(name), f"in {name}"
    except UnicodeError:
        return None


def _lines(text: bytes, rng: random.Random) -> tuple[bytes, str]:
    lines = text.split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(7):
        case 0:
            what = f"line {at + 1} gone"
            del lines[at]
        case 1:
            what = f"line {at + 1} again at {to + 1}"
            lines.insert(to, lines[at])
        case 2:
            what = f"lines {at + 1} and {to + 1} exchanged"
            lines[at], lines[to] = lines[to], lines[at]
        case 3:
            what = f"line {at + 1} further in"
            lines[at] = b" " * rng.choice((1, 2, 4)) + lines[at]
        case 4:
            what = f"line {at + 1} further out"
            lines[at] = lines[at][rng.choice((1, 2, 4)) :]
        case 5:
            what = f"line {at + 1} joined to the next"
            lines[at : at + 2] = [b" ".join(lines[at : at + 2])]
        case _:
            what = f"line {at + 1} a thousand times"
            lines[at : at + 1] = lines[at : at + 1] * 1000
    return b"\n".join(lines), what


ANY: tuple[Change, ...] = (_bytes, _bytes, _cut, _hole, _encoding, _lines, _lines)


# YAML: its tree of nodes is changed and written back.


def replaced(text: bytes, new: str) -> Iterator[tuple[str, bytes]]:
    """Each path in a YAML file, and the file with another value there."""
    n = len(list(_slots(yaml.compose(text, yaml.SafeLoader))))
    for number in range(n):
        root = yaml.compose(text, yaml.SafeLoader)
        parent, at, path = list(_slots(root))[number]
        _set(parent, at, _plain("VALUE"))
        yield path, _written(root).replace("VALUE", new).encode()


def _written(root: yaml.Node) -> str:
    return yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=10**6)


def _yaml(text: bytes, rng: random.Random) -> tuple[bytes, str] | None:
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeError, RecursionError):
        return None
    if root is None:
        return None
    slots = list(_slots(root))
    if not slots:
        return None
    parent, at, path = rng.choice(slots)
    put: dict[str, str] = {}
    what = _change_node(parent, at, path, slots, put, rng)
    out = _written(root)
    for mark, new in put.items():
        out = out.replace(mark, new)
    return out.encode("utf-8", "surrogatepass"), what


Slot = tuple[yaml.Node, int, str]


def _slots(node: yaml.Node, path: str = "", depth: int = 0):
    """Every value below a node: its parent, its key or position, and its path."""
    if depth > 50:
        return
    if isinstance(node, yaml.MappingNode):
        for at, (key, value) in enumerate(node.value):
            below = f"{path}.{key.value}" if path else f"{key.value}"
            yield node, at, below
            yield from _slots(value, below, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            yield node, at, f"{path}[{at}]"
            yield from _slots(value, f"{path}[{at}]", depth + 1)


def _set(parent: yaml.Node, at: int, value: yaml.Node) -> None:
    if isinstance(parent, yaml.MappingNode):
        parent.value[at] = (parent.value[at][0], value)
    else:
        parent.value[at] = value


def _get(parent: yaml.Node, at: int) -> yaml.Node:
    if isinstance(parent, yaml.MappingNode):
        return parent.value[at][1]
    return parent.value[at]


def _plain(text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode("tag:yaml.org,2002:str", text)


def _change_node(
    parent: yaml.Node,
    at: int,
    path: str,
    slots: list[Slot],
    put: dict[str, str],
    rng: random.Random,
) -> str:
    action = rng.choice(
        ("value",) * 8 + ("typo",) * 3 + ("gone", "gone", "twice", "list", "in", "move")
    )
    mapping = isinstance(parent, yaml.MappingNode)
    if action == "typo" and mapping:
        key = parent.value[at][0]
        if isinstance(key, yaml.ScalarNode):
            new = typo(key.value, rng)
            parent.value[at] = (_plain(new), parent.value[at][1])
            return f"{path}: the key is {new!r}"
    if action == "twice":
        other = rng.choice(slots)
        twin = parent.value[at] if rng.random() < 0.5 or not mapping else None
        twin = twin or (parent.value[at][0], _get(other[0], other[1]))
        parent.value.append(twin)
        return f"{path}: twice"
    if action in ("gone", "list", "in"):
        return f"{path}: {_wrap(action, parent, at, rng)}"
    if action == "move" and mapping:
        other, _, there = rng.choice(slots)
        if isinstance(other, yaml.MappingNode) and other is not parent:
            other.value.append(parent.value.pop(at))
            return f"{path}: moved next to {there}"
    mark = f"VALUE{rng.randrange(10**9)}"
    put[mark] = new = _value(path, rng)
    _set(parent, at, _plain(mark))
    return f"{path}: {new[:60]}"


def _wrap(action: str, parent: yaml.Node, at: int, rng: random.Random) -> str:
    if action == "gone":
        del parent.value[at]
        return "gone"
    if action == "list":
        one = yaml.SequenceNode("tag:yaml.org,2002:seq", [_get(parent, at)])
        _set(parent, at, one)
        return "in a list"
    name = rng.choice(("x", "task", "metadata", "key", "value", "metric"))
    pairs = [(_plain(name), _get(parent, at))]
    _set(parent, at, yaml.MappingNode("tag:yaml.org,2002:map", pairs))
    return f"under {name!r}"


LIKELY: Mapping[str, str] = {
    "regex": r"regex",
    "gate": r"gates\W|must_pass",
    "template": r"doc_to|template|description|expression|ground_truth|value|delimiter",
    "number": r"num_|max|min|limit|repeats|threshold|version|samples|group_|label",
}


def _value(path: str, rng: random.Random) -> str:
    """A value for this place: a wrong one of the right kind, or any value."""
    fitting = [kind for kind, names in LIKELY.items() if re.search(names, path)]
    kind = rng.choice(fitting) if fitting and rng.random() < 0.6 else None
    return rng.choice(values.YAML[kind or rng.choice(sorted(values.YAML))])


# JSON lines.


def _jsonl(text: bytes, rng: random.Random) -> tuple[bytes, str] | None:
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    new = rng.choice(values.JSON)
    if rng.random() < 0.15:
        lines[at] = new.encode()
        return b"\n".join(lines), f"line {at + 1}: {new[:60]}"
    try:
        row = json.loads(lines[at])
        key = rng.choice(sorted(row.keys()))
    except (ValueError, IndexError, TypeError, AttributeError, RecursionError):
        return None
    what = rng.choice(
        ("value", "value", "value", "value", "typo", "gone", "twice", "all")
    )
    if what == "all":  # a whole column
        lines = [_json_value(line, key, new) for line in lines]
        return b"\n".join(lines), f"{key!r} everywhere: {new[:60]}"
    if what == "value":
        lines[at] = _json_value(lines[at], key, new)
        return b"\n".join(lines), f"line {at + 1}, {key!r}: {new[:60]}"
    if what == "twice":
        lines[at] = lines[at][:-1] + f', "{key}": {new}}}'.encode()
        return b"\n".join(lines), f"line {at + 1}, {key!r} twice"
    value = row.pop(key)
    if what == "typo":
        row[typo(key, rng)] = value
    lines[at] = json.dumps(row).encode()
    return b"\n".join(lines), f"line {at + 1}, {key!r}: {what}"


def _json_value(line: bytes, key: str, new: str) -> bytes:
    try:
        row = json.loads(line)
        row[key] = "VALUE0"
    except (ValueError, TypeError, RecursionError):
        return line
    return json.dumps(row).replace('"VALUE0"', new).encode()


# Python.

_TOKEN = re.compile(
    rb"""\b\d+\b|(?<!scope=)"[^"\n]*"|\bNone\b|\bFalse\b|(?<== )\w+|(?<=return ).+"""
)


def _python(text: bytes, rng: random.Random) -> tuple[bytes, str] | None:
    if rng.random() < 0.5 and (place := text.find(b"yield place, ")) >= 0:
        end = text.find(b"\n", place)
        new = rng.choice(values.REPLIES)
        return text[:place] + new.encode() + text[end:], f"a reply: {new}"
    found = list(_TOKEN.finditer(text))
    if not found:
        return None
    token = rng.choice(found)
    new = rng.choice(values.PYTHON)
    out = text[: token.start()] + new.encode() + text[token.end() :]
    line = text[: token.start()].count(b"\n") + 1
    return out, f"line {line}: {new} for {token[0][:30]!r}"


CHANGES: Mapping[str, tuple[Change, ...]] = {
    ".yaml": (_yaml,),
    ".jsonl": (_jsonl,),
    ".py": (_python,),
}
