"""Scorers of retrieval: the contexts of a response against the relevant ids of a row.

A context without an id is known by its text; of equal ids only the first counts. The
relevant ids are a list, or a mapping of an id to its gain, in the row's column
``relevant``. A row without any leaves the case unscored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.errors import EvalsError
from pytest_evals.scorers.answers import AnswerScorer
from pytest_evals.scorers.arguments import checked_arguments

COLUMN = "relevant"
Retrieved = Sequence[str]
Gains = Mapping[str, float]


@checked_arguments
def context_recall(
    *, k: int | None = None, relevant: str = COLUMN, name: str = "context_recall"
) -> AnswerScorer:
    """The share of the relevant ids that were retrieved.

    Args:
        k: Only the first so many contexts count.
        relevant: Column of the relevant ids.
    """

    def value(found: Retrieved, gains: Gains) -> float:
        return sum(one in gains for one in found) / len(gains)

    return _scorer(name, value, k, relevant)


@checked_arguments
def context_precision(
    *, k: int | None = None, relevant: str = COLUMN, name: str = "context_precision"
) -> AnswerScorer:
    """The share of the retrieved ids that are relevant; 0 if nothing was retrieved.

    Args:
        k: Only the first so many contexts count.
        relevant: Column of the relevant ids.
    """

    def value(found: Retrieved, gains: Gains) -> float:
        return sum(one in gains for one in found) / len(found) if found else 0.0

    return _scorer(name, value, k, relevant)


@checked_arguments
def mrr(
    *, k: int | None = None, relevant: str = COLUMN, name: str = "mrr"
) -> AnswerScorer:
    """1 over the rank of the first relevant context, 0 without one; the metric is
    the mean reciprocal rank.

    Args:
        k: Only the first so many contexts count.
        relevant: Column of the relevant ids.
    """

    def value(found: Retrieved, gains: Gains) -> float:
        ranks = [rank for rank, one in enumerate(found, 1) if one in gains]
        return 1 / ranks[0] if ranks else 0.0

    return _scorer(name, value, k, relevant)


@checked_arguments
def ndcg(
    *, k: int | None = None, relevant: str = COLUMN, name: str = "ndcg"
) -> AnswerScorer:
    """The discounted cumulative gain, the sum of gain / log2(rank + 1), over that of
    the best order (Järvelin and Kekäläinen 2002).

    Args:
        k: Only the first so many contexts count.
        relevant: Column of the relevant ids; a mapping has their gains.
    """

    def value(found: Retrieved, gains: Gains) -> float:
        best = sorted(gains.values(), reverse=True)[: k or None]
        ideal = _discounted(best)
        return _discounted([gains.get(one, 0.0) for one in found]) / ideal

    return _scorer(name, value, k, relevant)


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _scorer(
    name: str,
    value: Callable[[Retrieved, Gains], float],
    k: int | None,
    column: str,
) -> AnswerScorer:
    if k is not None and k < 1:
        raise EvalsError(f"{name}: k is {k}, not 1 or more")

    def score(response: Response, case: Case) -> Score:
        gains = _gains(case.row.get(column))
        found = [*dict.fromkeys(_id(one) for one in response.contexts)][:k]
        shown = ", ".join(found)
        if not any(gain > 0 for gain in gains.values()):
            why = f"{name}: the row has no relevant ids in {column!r}"
            return Score(answer=shown, unscored=why)
        number = value(found, gains)
        why = f"retrieved {shown or 'nothing'}; relevant {', '.join(gains)}"
        return Score(value=number, correct=number == 1, answer=shown, explanation=why)

    return AnswerScorer(
        name=name,
        score=score,
        settings={"contexts": {"metric": name, "k": k, "relevant": column}},
        reads_response=True,
        is_graded=True,
    )


def _id(context: Mapping[str, Any]) -> str:
    return str(context.get("id", context.get("text")))


def _gains(given: Any) -> Gains:
    if given is None or given == "":
        return {}
    if isinstance(given, Mapping):
        return {str(one): float(gain) for one, gain in given.items() if gain > 0}
    if isinstance(given, str | int | float):
        given = [given]
    return dict.fromkeys(map(str, given), 1.0)
