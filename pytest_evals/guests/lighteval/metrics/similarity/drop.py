"""DROP's exact match and F1 of lists of spans (Dua et al. 2019, arXiv 1903.00161)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_evals.core.doc import Doc
from pytest_evals.errors import DocumentError, MissingExtraError
from pytest_evals.guests.lighteval.metrics.text.normalizers import (
    is_number,
    without_articles,
    without_punctuation,
)
from pytest_evals.scorers.custom_metrics.metric import Libraries, SampleLevelComputation
from pytest_evals.scorers.custom_metrics.response import ModelResponse

__all__ = ["DropMetrics"]

_COLUMN = "golds_no_preprocessing"


@dataclass(frozen=True)
class DropMetrics(SampleLevelComputation):
    """``em`` and ``f1`` of the best reference.

    References are in ``doc.specific["golds_no_preprocessing"]``, each a string or a
    list of spans. Each answer of the model is a span.

    Args:
        published: Keep reasoning in answers, as lighteval does.
    """

    is_share: ClassVar[bool] = True
    libraries: ClassVar[Libraries] = (("scipy", "scipy", "metrics"),)

    published: bool = False

    def measure(self, doc: Doc, model_response: ModelResponse) -> dict[str, float]:
        """Compute both numbers, with F1 rounded to two decimals.

        Raises:
            DocumentError: References are missing.
            MissingExtraError: SciPy is not installed.
        """
        golds = (doc.specific or {}).get(_COLUMN)
        if not isinstance(golds, list | tuple) or not golds:
            raise DocumentError(
                f"column {_COLUMN!r} (or doc.specific) must be a list of references"
            )
        texts = model_response.text if self.published else model_response.final_text
        preds = _spans(texts)
        best_em = best_f1 = 0.0
        for gold in golds:
            spans = [gold] if isinstance(gold, str) else list(gold)
            if not spans or not str(spans[0]).strip():
                continue
            spans = _spans(spans)
            best_em = max(best_em, float(set(spans) == set(preds)))
            best_f1 = max(best_f1, _f1(spans, preds))
        return {"em": best_em, "f1": best_f1}


def _spans(texts: Sequence[str]) -> list[str]:
    return [_normalized(text) for text in texts]


def _normalized(text: str) -> str:
    tokens = (_token(token) for token in re.split(" |-", text))
    return " ".join(token for token in tokens if token).strip()


def _token(token: str) -> str:
    token = token.lower()
    if not is_number(token):
        token = without_punctuation(token)
    if is_number(token):
        token = str(float(token))
    return without_articles(token)


def _f1(golds: Sequence[str], preds: Sequence[str]) -> float:
    """Return the mean F1 of the optimal pairing of spans; unpaired ones count as 0."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ModuleNotFoundError as error:
        raise MissingExtraError("DROP's F1", "scipy", "metrics") from error

    table = [[_pair(_bag(gold), _bag(pred)) for pred in preds] for gold in golds]
    if not preds:
        return 0.0
    rows, columns = linear_sum_assignment(table, maximize=True)
    total = sum(table[i][j] for i, j in zip(rows, columns, strict=True))
    return round(float(total) / max(len(golds), len(preds)), 2)


def _bag(span: str) -> frozenset[str]:
    return frozenset(span.split())


def _pair(gold: frozenset[str], pred: frozenset[str]) -> float:
    """Return the F1 of two sets of words; 0 if the reference contains numbers and the
    answer none of them."""
    numbers = {token for token in gold if is_number(token)}
    if numbers and not numbers & pred:
        return 0.0
    both = len(gold & pred)
    precision = both / len(pred) if pred else 1.0
    recall = both / len(gold) if gold else 1.0
    if not precision + recall:
        return 0.0
    return 2 * precision * recall / (precision + recall)
