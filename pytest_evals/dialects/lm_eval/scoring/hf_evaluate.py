"""Metrics of Hugging Face's library ``evaluate``, by the name of their script.

A script is Python code that somebody wrote. It is run where it lies on this disk
already (beside the task, or in the library's own cache) and never downloaded: whoever
wants that calls ``evaluate.load`` once. lm-eval 0.4.13 (``registry.get_metric``)
downloads it.
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
"""Kinds of scripts on the Hub, in the order in which ``evaluate`` looks for them."""


def find_metric(name: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """A function of ``references`` and ``predictions`` that runs a script.

    The library, which imports torch where that is installed, is imported when the
    function is first called.

    Args:
        name: ``wer``, ``user/metric``, or the path of a script or of the folder that
            has a script of its name.
        folders: Where paths start.

    Raises:
        EvalsError: There is no such script on this disk.
        MissingExtraError: The library is not installed.
    """
    if find_spec("evaluate") is None:
        raise MissingExtraError(f"metric {name!r}", "evaluate", "metrics")
    script = next(filter(os.path.isfile, _places(name, folders)), None)
    if script is None:
        raise EvalsError(
            f"the evaluate library has no script called {name!r} on this disk\n"
            f'  fix: python -c "import evaluate; evaluate.load({name!r})" downloads '
            "it (code of the Hub, which then runs here); or metric: !function "
            "module.name"
        )
    loaded = cache(lambda: _loaded(script))

    def compute(*, references: Any, predictions: Any, **arguments: Any) -> Any:
        found = loaded()
        if isinstance(found, EvalsError):
            raise found
        return found(references=references, predictions=predictions, **arguments)

    return compute


def _loaded(script: Path) -> Callable[..., Any] | EvalsError:
    """The script's function; or why there is none, so that it is tried once only."""
    try:
        with UserCode("the evaluate library", EvalsError):
            import evaluate

            # In memory, so that processes side by side do not share a file.
            loaded = evaluate.load(str(script), keep_in_memory=True)
    except EvalsError as error:
        return error
    compute: Callable[..., Any] = loaded.compute
    return compute


def _places(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Where the script may lie: as a path, then in the cache, newest first."""
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
    """Folders of the library's cache that keep a script of the Hub; as in its
    ``config`` (0.4.6), which would take seconds to import."""
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
