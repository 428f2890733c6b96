"""What a metric's name in a task file stands for, where it is none of lm-eval's:
lighteval's (``lighteval:rouge_t5``), or one that the user has registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pytest_evals.errors import EvalsError
from pytest_evals.scorers.metrics import METRICS

if TYPE_CHECKING:
    from pytest_evals.scorers.lighteval.task_metric import Computed

LIGHTEVAL = "lighteval:"
"""Prefix of the names of lighteval's metrics in task files."""
ENTRY_POINTS = "pytest_evals.metrics"
"""The group of entry points that give metrics names."""


def name_of(found: Any) -> str:
    """The name of a function, or of an object's class."""
    return str(getattr(found, "__name__", type(found).__name__))


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The metrics that a task may use besides lm-eval's.

    Args:
        registered: Those of the user's hooks, by name.
        output_type: The task's.
    """

    registered: Mapping[str, Any]
    output_type: str

    def computed(self, given: Any, arguments: Mapping[str, Any]) -> Computed | None:
        """The metric behind ``metric:``; ``None`` if it is of lm-eval's kind.

        Args:
            given: A name, or what ``!function`` has found.
            arguments: Whatever else stands in the entry.

        Raises:
            EvalsError: There is no such metric of lighteval's, what is registered under
                the name is no metric, or it takes no such arguments.
        """
        if not isinstance(given, str):
            return self._own(name_of(given), given, arguments)
        if given.startswith(LIGHTEVAL):
            from pytest_evals.scorers.lighteval.metric_entry import lighteval_metric

            return lighteval_metric(given, arguments)
        found = self._registered(given)
        if found is None:
            return None
        made = self._own(given, found, arguments)
        if made is None:
            raise EvalsError(
                f"{given!r} is registered as a metric and is none: {found!r:.80}\n"
                "  fix: a function of doc and response, or a SampleLevelMetric"
            )
        return made

    def _own(
        self, name: str, found: Any, arguments: Mapping[str, Any]
    ) -> Computed | None:
        from pytest_evals.scorers.lighteval.metric_entry import own_metric

        return own_metric(name, found, self.output_type, arguments)

    def _registered(self, name: str) -> Any:
        if name in self.registered:
            return self.registered[name]
        if name in METRICS:
            return None
        for found in entry_points(group=ENTRY_POINTS, name=name):
            return found.load()
        return None
