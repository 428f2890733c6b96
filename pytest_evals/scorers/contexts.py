"""Scorers of retrieval: the contexts of a response against the relevant ids of a row.

A context without an id is known by its text; of equal ids only the first counts. The
relevant ids are a list, or a mapping of an id to its gain, in the row's column
``relevant``. A row without any leaves the case unscored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.finite import is_finite
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError, EvalsError
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

    Arguments as for :func:`context_recall`."""

    def value(found: Retrieved, gains: Gains) -> float:
        return sum(one in gains for one in found) / len(found) if found else 0.0

    return _scorer(name, value, k, relevant)


@checked_arguments
def mrr(
    *, k: int | None = None, relevant: str = COLUMN, name: str = "mrr"
) -> AnswerScorer:
    """1 over the rank of the first relevant context, 0 without one; the metric is the
    mean reciprocal rank.

    Arguments as for :func:`context_recall`."""

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

    Arguments as for :func:`context_recall`; a mapping of relevant ids has their gains.
    """

    def value(found: Retrieved, gains: Gains) -> float:
        best = sorted(gains.values(), reverse=True)[:k]
        return _discounted([gains.get(one, 0.0) for one in found]) / _discounted(best)

    return _scorer(name, value, k, relevant)


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _scorer(
    name: str, value: Callable[[Retrieved, Gains], float], k: int | None, column: str
) -> AnswerScorer:
    if k is not None and k < 1:
        raise EvalsError(f"{name}: k is {k}, not 1 or more")

    def gains_of(case: Case) -> Gains:
        return _gains(case.row.get(column), f"{name}: {column}")

    def score(response: Response, case: Case) -> Score:
        gains = gains_of(case)
        ids = (_named(one.get("id", one.get("text"))) for one in response.contexts)
        found = [*dict.fromkeys(ids)][:k]
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
        check=gains_of,
    )


def _named(given: Any) -> str:
    """An id as text: 3.0 of a column with numbers is 3."""
    is_whole = isinstance(given, float) and given.is_integer()
    return str(int(given) if is_whole else given)


def _gains(given: Any, key: str) -> Gains:
    """Relevant id → its gain. Text of a list or a mapping, as in CSV, is read as JSON.
    Raises DocumentError if it is something else."""
    if isinstance(given, str) and given.strip()[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):  # else an id
            given = json.loads(given)
    if given is None or given == "":
        return {}
    if not isinstance(given, Mapping | list | tuple):
        given = [given]
    pairs = given.items() if isinstance(given, Mapping) else [(n, 1) for n in given]
    for one, gain in pairs:
        is_id = isinstance(one, str | int | float) and not isinstance(one, bool)
        if not is_id or not is_finite(gain):
            shown = f"{one!r:.40}: {gain!r:.20}" if is_id else f"{one!r:.60}"
            raise DocumentError(
                f"{key} has {shown}, not an id or its gain\n"
                "  fix: relevant: [returns, shipping], or {returns: 2, shipping: 1}"
            )
    return {_named(one): float(gain) for one, gain in pairs if gain > 0}
