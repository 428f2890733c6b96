"""Fingerprint of a model whose weights are on this machine: everything that affects its
outputs, read from its files, so that a fully cached run needs no engine and no weights.

Part of it, and so of the keys of stored responses, is the hash of the code that
computes a model's answers. It covers the module that opens a kind's models and every
module of this package that it imports, at any depth and also inside functions: code
that moves to another module stays covered without being listed. What is hashed is the
set of definitions, not the files: moving or renaming a module, moving a function to
another one, comments, docstrings and blank lines do not change the hash; a changed, new
or removed statement does.

Modules that cannot change an answer are named in ``NOT_COMPUTING``; any other new
module is covered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_evals.models.checkpoint import HashFile, provenance
from pytest_evals.models.tokens.settings import TokenizerSettings

NOT_COMPUTING = frozenset(
    {
        # Error messages, and the secrets in them.
        "pytest_evals.errors",
        "pytest_evals.masking",
        # Parsing of specs; the parsed values are in the fingerprint.
        "pytest_evals.models.registry",
        "pytest_evals.models.spec",
        # The fingerprint itself.
        "pytest_evals.models.checkpoint",
        "pytest_evals.models.engine.code_hash",
        # Runs and data; a model gets requests only, and their content is in the key.
        "pytest_evals.core.run_plan",
        "pytest_evals.core.task",
        "pytest_evals.data",
        # Limits raise errors; errors are not stored.
        "pytest_evals.limits",
    }
)
"""Modules and packages that cannot change an answer. Their imports are not followed."""
_PACKAGE = "pytest_evals"
_QUOTES = '"' * 3
_COMMENT = re.compile(
    r"""^((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^"'#])*)#.*""", re.DOTALL
)
_IMPORT = re.compile(
    r"^([ \t]*)(?:from ([\w.]+) )?import (?:\(([^)]*)\)|(.*))$", re.MULTILINE
)
_DEFINITION = re.compile(r"\n(?=[@A-Za-z_])")


@cache
def code_hash(root: str) -> str:
    """Hash of a module of this package and of all that it imports; none is imported."""
    sources = computing_sources(root, Path(__file__).parents[2])
    return hash_of(sources.values())


def hash_of(sources: Iterable[str]) -> str:
    """Hash of the definitions in sources without comments."""
    definitions = {one for source in sources for one in _definitions(source)}
    return hashlib.sha256("\0".join(sorted(definitions)).encode()).hexdigest()[:16]


def computing_sources(root: str, package: Path) -> dict[str, str]:
    """A module and all that it imports: name → source without comments."""
    found: dict[str, str] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in found or _is_ignored(name):
            continue
        path = _folder(name, package) or _file(name, package)
        found[name] = without_comments(path.read_text(encoding="utf-8"))
        for module, item in _imports(found[name]):
            inner = f"{module}.{item}"
            is_module = _folder(module, package) and (
                _file(inner, package).is_file() or _folder(inner, package)
            )
            waiting.append(inner if is_module else module)
    return found


def without_comments(source: str) -> str:
    """A module's source without comments, docstrings and blank lines."""
    parts = source.split(_QUOTES)
    parts[::2] = map(_without_line_comments, parts[::2])
    for n in range(1, len(parts), 2):
        before, after = parts[n - 1].rpartition("\n")[2], parts[n + 1]
        is_docstring = before.strip(" r") == "" and after[:1] in ("", "\n")
        parts[n] = "" if is_docstring else f"{_QUOTES}{parts[n]}{_QUOTES}"
    lines = (line.rstrip() for line in "".join(parts).split("\n"))
    return "\n".join(filter(None, lines))


def _without_line_comments(code: str) -> str:
    lines = code.split("\n")
    cut = (_COMMENT.sub(r"\1", line) if "#" in line else line for line in lines)
    return "\n".join(cut)


def _is_ignored(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:n]) in NOT_COMPUTING for n in range(2, len(parts) + 1))


def _file(name: str, package: Path) -> Path:
    return package.joinpath(*name.split(".")[1:]).with_suffix(".py")


@cache
def _folder(name: str, package: Path) -> Path | None:
    """The module of a package; ``None`` if the name is that of a single module."""
    path = package.joinpath(*name.split(".")[1:], "__init__.py")
    return path if path.is_file() else None


def _imports(source: str) -> Iterator[tuple[str, str]]:
    for match in _IMPORT.finditer(source):
        _, module, several, one = match.groups(default="")
        if module.partition(".")[0] == _PACKAGE:
            for name in _names(several or one):
                yield module, name.partition(" ")[0]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _definitions(source: str) -> Iterator[str]:
    """Top-level statements, and each imported name of other packages on its own, so
    that moving a function with its imports changes nothing."""
    decorators = ""
    for one in _DEFINITION.split(_IMPORT.sub(_import_lines, source)):
        if one.startswith("@"):
            decorators += one
        else:
            yield decorators + one
            decorators = ""


def _import_lines(match: re.Match[str]) -> str:
    indent, module, several, one = match.groups(default="")
    if module.partition(".")[0] == _PACKAGE:
        return f"{indent}pass"
    if indent or not module:
        return match[0]
    return "\n".join(f"from {module} import {name}" for name in _names(several or one))


LIBRARIES = ("tokenizers", "torch", "transformers")
_FILES = {"target", "revision", "tokenizer"}  # Settings whose files' content is hashed


def engine_fingerprint(
    kind: str, settings: TokenizerSettings, hash_file: HashFile
) -> dict[str, Any] | None:
    """Files, tokenization, library versions and code of a model of a kind, as JSON
    values; ``None`` if its files are unknown."""
    model = provenance(settings.target, settings.revision, hash_file)
    tokenizer: Mapping[str, Any] | None = {}
    if settings.tokenizer:
        tokenizer = provenance(settings.tokenizer, "", hash_file)
    if model is None or tokenizer is None:
        return None
    names = [one.name for one in fields(TokenizerSettings) if one.name not in _FILES]
    return {
        "kind": kind,
        "model": model,
        "tokenizer": tokenizer,
        **values_of(settings, names),
        "libraries": {name: library_version(name) for name in LIBRARIES},
        "engine": code_hash(f"pytest_evals.models.{kind}.model"),
    }


def values_of(settings: Any, names: Iterable[str]) -> dict[str, Any]:
    """Settings as JSON values."""
    found = {name: getattr(settings, name) for name in names}
    return {n: dict(v) if isinstance(v, Mapping) else v for n, v in found.items()}


@cache
def library_version(name: str) -> str:
    """Version of an installed distribution; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
