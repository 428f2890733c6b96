"""The results of several models on the same tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pytest_evals.core.comparison import ModelComparison
from pytest_evals.core.display import joined
from pytest_evals.core.result import RunResult
from pytest_evals.errors import unknown_name

ModelRows = Literal["matrix", "metrics", "gates", "documents", "changes"]


class ModelResults(Mapping[str, RunResult]):
    """The result of each model, by its name: ``results["gpt2"]``.

    Args:
        comparison: The models side by side.
    """

    def __init__(
        self, results: Mapping[str, RunResult], comparison: ModelComparison
    ) -> None:
        self._results = dict(results)
        self.comparison = comparison

    def __getitem__(self, name: str) -> RunResult:
        """The result of a model.

        Raises:
            KeyError: No model has this name.
        """
        if name not in self._results:
            raise KeyError(unknown_name("model", str(name), [*self._results]))
        return self._results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def to_pandas(self, rows: ModelRows = "metrics") -> Any:
        """A ``pandas.DataFrame``.

        Args:
            rows: ``matrix``: a row for each document, and a column for each model with
                whether its answer is correct. ``metrics``: a row for each metric and
                model, with its paired change from the reference and its rank.
                ``gates``, ``documents`` and ``changes``: those of each model, as of a
                :class:`RunResult`, with a column ``model``.

        Raises:
            OptionError: ``rows`` has another value.
            MissingExtraError: pandas is not installed.
        """
        if rows == "matrix" or rows == "metrics":
            return self.comparison.to_pandas(rows)
        frames = {name: one.to_pandas(rows) for name, one in self._results.items()}
        return joined(frames, "model")

    def __repr__(self) -> str:
        return "\n".join([*map(repr, self._results.values()), repr(self.comparison)])

    def _repr_html_(self) -> str:
        each = (one._repr_html_() for one in self._results.values())
        return "\n".join([*each, self.comparison._repr_html_()])
