"""What Python modules of tasks import from lm-eval, for where that is not installed.

Exactly the names that lm-eval's own task tree uses (0.4.13), in words of our own; all
else needs lm-eval itself. :mod:`.task_modules` decides who gets them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evals.scorers.extraction import Regex

__all__ = ["INSTALL", "NAMES", "register_filter", "registered_filters"]

INSTALL = "pip install lm-eval==0.4.13"


class Filter:
    """What lm-eval's filters derive from: ``apply(resps, docs)``."""

    def __init__(self, **kwargs: Any) -> None:
        """Arguments are the deriving class's."""

    def apply(self, resps: Any, docs: Any) -> Any:
        """The responses as they are."""
        return resps


class RegexFilter(Filter):
    """The filter ``regex``, with the attributes that deriving classes read."""

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
    ) -> None:
        """As the filter ``regex``."""
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback

    def apply(self, resps: Iterable[Sequence[Any]], docs: Any) -> list[list[str]]:
        """One extracted text a response."""
        ours = Regex(self.regex_pattern, self.group_select, self.fallback)
        return ours.apply(list(resps), docs)


@dataclass
class Instance:
    """A request of lm-eval; ``metadata`` is task, document and repeats."""

    request_type: str
    doc: dict[str, Any]
    arguments: Any
    idx: int
    metadata: tuple[str | None, int | None, int | None] = (None, None, None)
    resps: list[Any] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)
    task_name: str | None = None
    doc_id: int | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        """Take the metadata apart."""
        self.task_name, self.doc_id, self.repeats = self.metadata

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments, always a tuple."""
        given = self.arguments
        return given if isinstance(given, tuple) else (given,)


class Task:
    """Something to derive a task class from; running it needs lm-eval."""

    VERSION: Any = None
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    OUTPUT_TYPE: str | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing behind it.

        Raises:
            ModuleNotFoundError: Always.
        """
        what = f"{type(self).__name__} is a task class, which runs on lm-eval"
        raise ModuleNotFoundError(f"{what}: {INSTALL}", name="lm_eval")


class ConfigurableTask(Task):
    """As :class:`Task`."""

    CONFIG: Any = None


def mean(arr: Sequence[float]) -> float:
    """The plain mean."""
    return sum(arr) / len(arr)


# A task that gives it as its aggregation gets the standard error of the mean.
mean.__module__ = "lm_eval.api.metrics"


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], Any], prediction: Any, ground_truths: Iterable[Any]
) -> Any:
    """The best of the metric's values over all right answers."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)


def weighted_f1_score(items: Iterable[tuple[Any, Any]]) -> Any:
    """F1 of each label, weighted by its frequency; of pairs of label and answer."""
    from sklearn.metrics import f1_score

    golds, answers = zip(*items, strict=True)
    return f1_score(golds, answers, average="weighted")


_GLUED = (
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
    """The text without the blanks that a tokenizer put around its signs."""
    for apart, together in _GLUED[:5]:
        string = string.replace(apart, together)
    signs = dict(_GLUED[5:])
    return re.sub(r" ['.,]", lambda found: signs[found.group()], string)


def handle_non_serializable(o: Any) -> Any:
    """What JSON does not know: scalars of NumPy as Python's, sets as lists, all else as
    text."""
    import numpy as np

    if isinstance(o, np.bool_ | np.integer | np.floating):
        return o.item()
    return list(o) if isinstance(o, set) else str(o)


def make_table(
    result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False
) -> str:
    """Results as a Markdown table: a row a metric, filters and standard errors in
    columns of their own."""
    head = ["Groups" if column == "groups" else "Tasks", "Version", "Filter", "n-shot"]
    rows: list[list[Any]] = [[*head, "Metric", "Value", "Stderr"], ["---"] * 7]
    found: Mapping[str, Any] = result_dict[column]
    for name in sorted(found) if sort_results else found:
        numbers = found[name]
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


registered_filters: dict[str, Any] = {}
"""Name → class, by ``register_filter`` in modules of tasks; the later one counts."""


def register_filter(name: str) -> Callable[[Any], Any]:
    """A decorator that gives a filter a name for ``filter_list``."""

    def register(found: Any) -> Any:
        registered_filters[name] = found
        return found

    return register


NAMES: Mapping[str, Mapping[str, Any]] = {
    "lm_eval": {},
    "lm_eval.api": {},
    "lm_eval.api.filter": {"Filter": Filter},
    "lm_eval.api.instance": {"Instance": Instance},
    "lm_eval.api.metrics": {
        "mean": mean,
        "metric_max_over_ground_truths": metric_max_over_ground_truths,
    },
    "lm_eval.api.registry": {"register_filter": register_filter},
    "lm_eval.api.task": {"ConfigurableTask": ConfigurableTask, "Task": Task},
    "lm_eval.filters": {},
    "lm_eval.filters.extraction": {"Filter": Filter, "RegexFilter": RegexFilter},
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
