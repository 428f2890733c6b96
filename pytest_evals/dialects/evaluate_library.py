"""Hugging Face's library ``evaluate``: its import without evaluators, and its metrics
by script name.

The library imports evaluators at once, and with them transformers and torch: nine
seconds of processor time and 400 MB, of which metrics use nothing (0.4.6). Here an
evaluator is imported when it is first used.

A script is Python code. Scripts of the library's authors run by name if they are in its
cache; a file next to the task runs if the entry is its path; all others need
``--evals-allow-unsafe-code``. Nothing is downloaded: call ``evaluate.load`` once.
lm-eval 0.4.13 (``registry.get_metric``) downloads scripts, and runs a folder of that
name in the working directory instead.
"""

from __future__ import annotations

import glob
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evals.errors import EvalsError, MissingExtraError
from pytest_evals.scorers.code_eval import CodeEval
from pytest_evals.scorers.user_code import UserCode

_LIBRARY = "evaluate"
_EVALUATORS = "evaluate.evaluator"
CODE_EVAL = ("code_eval", "evaluate-metric/code_eval")
"""Names of the metric that runs programs."""


def import_evaluate() -> ModuleType:
    """Return the library; if it was imported before, as it is."""
    if _LIBRARY in sys.modules:
        return sys.modules[_LIBRARY]
    sys.modules[_EVALUATORS] = _Evaluators(_EVALUATORS)
    try:
        library = importlib.import_module(_LIBRARY)
    finally:
        del sys.modules[_EVALUATORS]
    names = vars(library)
    for name in [one for one, value in names.items() if isinstance(value, _Evaluator)]:
        del names[name]
    names["__getattr__"] = _evaluator
    return library


def route_code_eval(library: Any) -> None:
    """Let ``evaluate.load("code_eval")`` return the metric that runs programs in the
    sandbox; the library's own runs them in a child process with the user's rights."""
    original = library.load
    if getattr(original, "is_routed", False):
        return

    def load(path: str, *arguments: Any, **named: Any) -> Any:
        if path in CODE_EVAL:
            return CodeEval()
        return original(path, *arguments, **named)

    vars(load)["is_routed"] = True
    library.load = load


def _evaluator(name: str) -> Any:
    """Return a name of the evaluators, as an attribute of the library."""
    if name.startswith("__"):
        raise AttributeError(name)
    module = importlib.import_module(_EVALUATORS)
    names = vars(sys.modules[_LIBRARY])
    names["evaluator"] = vars(module)["evaluator"]  # the import sets the module
    return getattr(module, name)


class _Evaluators(ModuleType):
    """Takes the place of the module of the evaluators while it is imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Evaluator(name)


class _Evaluator:
    """A function of the evaluators, which calls the real one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _evaluator(self._name)(*arguments, **named)


OFFICIAL = frozenset(
    re.findall(
        r"\w+",
        """
        accuracy bertscore bleu bleurt brier_score cer character charcut_mt chrf
        code_eval comet competition_math confusion_matrix coval cuad exact_match f1
        frugalscore glue google_bleu indic_glue mae mahalanobis mape mase
        matthews_correlation mauve mean_iou meteor mse nist_mt pearsonr perplexity
        poseval precision r_squared recall rl_reliability roc_auc rouge sacrebleu sari
        seqeval
        smape spearmanr squad squad_v2 super_glue ter trec_eval wer wiki_split xnli
        xtreme_s
        """,
    )
)
"""Metrics in the repository of ``evaluate`` 0.4.6."""
_KINDS = ("metric", "comparison", "measurement")
"""Kinds of scripts on the Hub, in the search order of ``evaluate``."""


def find_metric(
    name: str, folders: Sequence[Path], *, may_execute: bool = False
) -> Callable[..., Any]:
    """A function of ``references`` and ``predictions`` that runs a script.

    The library is imported on the first call.

    Args:
        name: ``wer``, ``user/metric``, or the path of a script or of a folder with a
            script of the same name: absolute, with ``./`` or ``../``, or to a ``.py``.
        folders: Folders that paths are relative to.
        may_execute: Whether other scripts than those of the library's authors run by
            name, and folders of that name.

    Raises:
        EvalsError: The script is not on this disk, or may not run.
        MissingExtraError: The library is not installed.
    """
    if find_spec("evaluate") is None:
        raise MissingExtraError(f"metric {name!r}", "evaluate", "metrics")
    if name in CODE_EVAL:
        return CodeEval().compute
    is_path = name.startswith(("./", "../", "/")) or name.endswith(".py")
    near = [*filter(os.path.isfile, _in_folders(name, folders))]
    cached = [] if is_path else [*filter(os.path.isfile, _in_cache(name))]
    if not is_path and not may_execute:
        if near and not (cached and name in OFFICIAL):
            raise EvalsError(
                f"metric {name!r} would run {near[0]}, which the entry does not name\n"
                f"  fix: metric: ./{name}"
            )
        if cached and name not in OFFICIAL:
            raise EvalsError(
                f"metric {name!r} runs code of the Hub\n"
                "  fix: pass --evals-allow-unsafe-code to run it on this machine, with "
                "your permissions"
            )
        near = []
    script = next(iter([*near, *cached]), None)
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
            library: Any = import_evaluate()
            # In memory, so that parallel processes do not share a file.
            loaded = library.load(str(script), keep_in_memory=True)
    except EvalsError as error:
        return error
    compute: Callable[..., Any] = loaded.compute
    return compute


def _in_folders(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        path = folder / name
        yield path if path.suffix == ".py" else path / f"{path.name}.py"


def _in_cache(name: str) -> Iterator[Path]:
    """Scripts in the library's cache, newest first."""
    script = glob.escape(name.rpartition("/")[2]) + ".py"
    cached = [
        path
        for folder in _cached(name)
        if os.path.isdir(folder)
        for path in folder.glob(f"*/{script}")
    ]
    yield from sorted(cached, key=lambda p: p.stat().st_mtime, reverse=True)


def _cached(name: str) -> Iterator[Path]:
    """Folders of the library's cache for a script of the Hub. Same as its ``config``
    module (0.4.6), which takes seconds to import."""
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
