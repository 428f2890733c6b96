"""Metrics of Hugging Face's library ``evaluate``, by script name.

A script is third-party Python code. It runs only if it is on this disk (next to the
task or in the library's cache) and is never downloaded; call ``evaluate.load`` once to
download it. lm-eval 0.4.13 (``registry.get_metric``) downloads it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_evals.errors import EvalsError, MissingExtraError
from pytest_evals.scorers.user_code import UserCode

_KINDS = ("metric", "comparison", "measurement")
"""Kinds of scripts on the Hub, in the search order of ``evaluate``."""


def find_metric(name: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """A function of ``references`` and ``predictions`` that runs a script.

    The library, which imports torch if installed, is imported on the first call.

    Args:
        name: ``wer``, ``user/metric``, or the path of a script or of a folder with a
            script of the same name.

    Raises:
        EvalsError: The script is not on this disk.
        MissingExtraError: The library is not installed.
    """
    if find_spec("evaluate") is None:
        raise MissingExtraError(f"metric {name!r}", "evaluate", "metrics")
    script = next(filter(os.path.isfile, _candidates(name, folders)), None)
    if script is None:
        raise EvalsError(
            f"the evaluate library has no script {name!r} on this disk\n"
            f'  fix: download it (code of the Hub that runs here): python -c "import '
            f'evaluate; evaluate.load({name!r})"; or metric: !function module.name'
        )
    load = cache(lambda: _load(script))

    def compute(*, references: Any, predictions: Any, **arguments: Any) -> Any:
        function = load()
        if isinstance(function, EvalsError):
            raise function
        return function(references=references, predictions=predictions, **arguments)

    return compute


def _load(script: Path) -> Callable[..., Any] | EvalsError:
    """The script's function, or the error, which is returned so that it is cached."""
    try:
        with UserCode("the evaluate library", EvalsError):
            import evaluate

            # In memory, so that parallel processes do not share a file.
            loaded = evaluate.load(str(script), keep_in_memory=True)
    except EvalsError as error:
        return error
    compute: Callable[..., Any] = loaded.compute
    return compute


def _candidates(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Possible paths of the script: as a path, then in the cache, newest first."""
    for folder in folders:
        path = folder / name
        yield path if path.suffix == ".py" else path / f"{path.name}.py"
    script = glob.escape(name.rpartition("/")[2]) + ".py"
    cached = [
        path
        for folder in _cached(name)
        if os.path.isdir(folder)
        for path in folder.glob(f"*/{script}")
    ]
    yield from sorted(cached, key=lambda p: p.stat().st_mtime, reverse=True)


def _cached(name: str) -> Iterator[Path]:
    """Folders of the library's cache for a script of the Hub.

    Same as its ``config`` module (0.4.6), which takes seconds to import.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    home = Path(os.environ.get("HF_HOME", base))
    modules = Path(
        os.path.expanduser(os.environ.get("HF_MODULES_CACHE", home / "modules"))
    )
    root = modules / "evaluate_modules" / "metrics"
    if "/" in name:
        yield root / name.replace("/", "--")
    else:
        yield from (root / f"evaluate-{kind}--{name}" for kind in _KINDS)
