"""Load Python files next to task files as modules.

If lm-eval is not installed, their imports from it resolve to shims, and
``lm_eval.tasks`` to the task tree that contains the file. The shims cover the modules
of lm-eval 0.4.13 that its own task tree imports, and a few more names; others need
lm-eval itself. An installed lm-eval always takes precedence.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from pytest_evals.dialects.lm_eval.evaluate_library import (
    import_evaluate,
    route_code_eval,
)
from pytest_evals.dialects.lm_eval.shims.config import (
    FewshotConfig,
    TaskConfig,
    needs_lm_eval,
)
from pytest_evals.dialects.lm_eval.shims.configurable import ConfigurableTask
from pytest_evals.dialects.lm_eval.shims.filters import (
    Filter,
    MultiChoiceRegexFilter,
    RegexFilter,
    register_filter,
    registered_filters,
)
from pytest_evals.dialects.lm_eval.shims.registry import (
    mean,
    median,
    metric_max_over_ground_truths,
    perplexity,
    register_aggregation,
    register_metric,
    weighted_f1_score,
    weighted_perplexity,
)
from pytest_evals.dialects.lm_eval.shims.samplers import (
    ContextSampler,
    FirstNSampler,
)
from pytest_evals.dialects.lm_eval.shims.task import Instance, Task
from pytest_evals.dialects.module_loader import StandIn, StandInImports, loaded
from pytest_evals.scorers.code_eval import CodeEval

_DETOKENIZATION = (
    (" n't", "n't"),
    (" )", ")"),
    ("( ", "("),
    ('" ', '"'),
    (' "', '"'),
    (" '", "'"),
    (" .", "."),
    (" ,", ","),
)


def general_detokenize(string: str) -> str:
    """Remove the spaces that a tokenizer put around punctuation."""
    for spaced, joined in _DETOKENIZATION[:5]:
        string = string.replace(spaced, joined)
    signs = dict(_DETOKENIZATION[5:])
    return re.sub(r" ['.,]", lambda match: signs[match.group()], string)


def handle_non_serializable(o: Any) -> Any:
    """Convert values that JSON does not support: NumPy scalars, sets to lists, others
    to strings."""
    import numpy as np

    if isinstance(o, np.bool_ | np.integer | np.floating):
        return o.item()
    return list(o) if isinstance(o, set) else str(o)


def make_table(
    result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False
) -> str:
    """Results as a Markdown table: one row for each metric."""
    head = ["Groups" if column == "groups" else "Tasks", "Version", "Filter", "n-shot"]
    rows: list[list[Any]] = [[*head, "Metric", "Value", "Stderr"], ["---"] * 7]
    results: Mapping[str, Any] = result_dict[column]
    for name in sorted(results) if sort_results else results:
        numbers = results[name]
        first = [
            numbers.get("alias", name),
            result_dict.get("versions", {}).get(name, "N/A"),
        ]
        for key in sorted(key for key in numbers if "," in key):
            metric, _, pipeline = key.partition(",")
            if metric.endswith("_stderr"):
                continue
            shots = result_dict.get("n-shot", {}).get(name, "")
            error = numbers.get(f"{metric}_stderr,{pipeline}", "N/A")
            shown = [_rounded(numbers[key]), _rounded(error)]
            rows.append([*first, pipeline, shots, metric, *shown])
            first = ["", ""]
    return "\n".join(f"|{'|'.join(map(str, row))}|" for row in rows)


def _rounded(value: Any) -> Any:
    return f"{value:.4f}" if isinstance(value, float) else value


NAMES: Mapping[str, Mapping[str, Any]] = {
    "lm_eval": {},
    "lm_eval.api": {},
    "lm_eval.api.filter": {"Filter": Filter},
    "lm_eval.api.instance": {"Instance": Instance},
    "lm_eval.api.metrics": {
        "mean": mean,
        "median": median,
        "metric_max_over_ground_truths": metric_max_over_ground_truths,
        "perplexity": perplexity,
        "weighted_perplexity": weighted_perplexity,
    },
    "lm_eval.api.registry": {
        "register_aggregation": register_aggregation,
        "register_filter": register_filter,
        "register_metric": register_metric,
    },
    "lm_eval.api.samplers": {
        "ContextSampler": ContextSampler,
        "FirstNSampler": FirstNSampler,
    },
    "lm_eval.api.task": {
        "ConfigurableTask": ConfigurableTask,
        "Instance": Instance,
        "Task": Task,
        "TaskConfig": TaskConfig,
        "mean": mean,
        "weighted_perplexity": weighted_perplexity,
    },
    "lm_eval.config": {},
    "lm_eval.config.task": {"FewshotConfig": FewshotConfig, "TaskConfig": TaskConfig},
    "lm_eval.filters": {},
    "lm_eval.filters.extraction": {
        "Filter": Filter,
        "MultiChoiceRegexFilter": MultiChoiceRegexFilter,
        "RegexFilter": RegexFilter,
        "register_filter": register_filter,
    },
    "lm_eval.tasks": {},
    "lm_eval.utils": {
        "general_detokenize": general_detokenize,
        "handle_non_serializable": handle_non_serializable,
        "logging": logging,
        "make_table": make_table,
        "weighted_f1_score": weighted_f1_score,
    },
}
"""Module → its names."""


_REGISTRY = "lm_eval.api.registry"
_TREE = "lm_eval.tasks"


def has_lm_eval() -> bool:
    """Whether lm-eval is installed."""
    if "lm_eval" in sys.modules:
        return sys.modules["lm_eval"] is not None
    try:
        return importlib.util.find_spec("lm_eval") is not None
    except ImportError:
        return False


def registered_filter(name: str) -> Any:
    """The filter that a task's module registered by ``register_filter``, if any."""
    if name in registered_filters:
        return registered_filters[name]
    registry = sys.modules.get(_REGISTRY)
    known = registry.filter_registry if registry is not None else {}
    return known.get(name) if name in known else None


def load_module(file: Path) -> ModuleType:
    """Load the module of a file
    (:func:`~pytest_evals.dialects.module_loader.loaded`)."""
    with CodeEval.during_import():
        imports = _import_installed if has_lm_eval() else _shim_imports(file)
        return loaded(file, imports)


def import_for(file: Path, name: str) -> ModuleType:
    """Import a module as a Python file next to ``file`` would."""
    if _is_lm_eval(name) and not has_lm_eval():
        module: ModuleType = _shim_imports(file).module(name)
        return module
    return importlib.import_module(name)


def shim_modules() -> Mapping[str, ModuleType]:
    """The modules that replace lm-eval, by name, for ``sys.modules``."""
    imports = StandInImports(("lm_eval",), NAMES, _missing_attribute, _missing_module)
    return {name: imports.module(name) for name in NAMES}


def _import_installed(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """``__import__``, except that a filter name may be registered twice.

    lm-eval refuses a second registration, but a changed file must be loadable again.
    """
    module = _import_other(name, globals, locals, fromlist or (), level)
    if name != _REGISTRY or "register_filter" not in (fromlist or ()):
        return module
    registry = ModuleType(name)
    vars(registry).update(vars(module))
    vars(registry)["register_filter"] = partial(_register, module)
    return registry


def _import_other(name: str, *how: Any) -> ModuleType:
    """``__import__``, except that the library ``evaluate`` is imported quickly."""
    if name == "evaluate":
        route_code_eval(import_evaluate())
    return builtins.__import__(name, *how)


def _register(registry: Any, name: str) -> Callable[[Any], Any]:
    def register(cls: Any) -> Any:
        if name not in registry.filter_registry:
            registry.register_filter(name)(cls)
        return register_filter(name)(cls)

    return register


def _is_lm_eval(name: str) -> bool:
    return name.partition(".")[0] == "lm_eval"


def _shim_imports(file: Path) -> StandInImports:
    """The ``__import__`` of Python files next to task files."""
    return StandInImports(
        ("lm_eval",),
        NAMES,
        _missing_attribute,
        partial(_from_tree, file),
        _import_other,
    )


def _missing_attribute(module: str, name: str) -> Any:
    raise AttributeError(needs_lm_eval(f"{module}.{name}"))


def _missing_module(name: str) -> NoReturn:
    raise ModuleNotFoundError(needs_lm_eval(name), name=name)


def _from_tree(near: Path, name: str) -> ModuleType:
    """Load a module of the task tree that contains the file."""
    if name.startswith(f"{_TREE}."):
        parts = name.removeprefix(f"{_TREE}.").split(".")
        for folder in near.resolve().parents:
            path = folder.joinpath(*parts)
            file = path.with_name(f"{path.name}.py")
            if os.path.isfile(file):
                return load_module(file)
            if os.path.isfile(path / "__init__.py"):
                return load_module(path / "__init__.py")
            if os.path.isdir(path):
                return StandIn(name, {}, _missing_attribute)
    _missing_module(name)
