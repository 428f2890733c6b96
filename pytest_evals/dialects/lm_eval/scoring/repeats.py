"""Scores of each answer, if a document has several.

The task's filters process all answers at once (lm-eval's ``take_first`` selects the
first). Gates that estimate the variation between answers, or use ``pass@k``, need each
answer scored on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import Generate, are_copies
from pytest_evals.dialects.lm_eval.scoring.scorer import Scorer
from pytest_evals.errors import DocumentError


@dataclass(frozen=True)
class Repeats:
    """A scorer that also stores the value of each answer."""

    scorer: Scorer

    @cached_property
    def _once(self) -> Scorer:
        return replace(self.scorer, repeats=1)

    def __call__(self, record: Record) -> tuple[Score, ...]:
        """The scores, with those of single answers if they can be scored alone."""
        scores, n = self.scorer(record), self.scorer.repeats
        try:
            single = [self._once(_answer(record, i, n)) for i in range(n)]
        except DocumentError:  # the filters need several answers
            return scores
        by_key = [{score.key: score for score in one} for one in single]
        is_copied = _is_copied(record, n)
        starts = range(0, len(record.responses), n)
        is_one = all(are_copies(record.responses[at : at + n]) for at in starts)
        return tuple(
            replace(
                score,
                repeats=tuple(one[score.key].value for one in by_key),
                repeat_answers=tuple(one[score.key].answer for one in by_key),
                is_copied=is_copied,
                is_deterministic=is_one,
            )
            if all(score.key in one for one in by_key)
            else score
            for score in scores
        )


def _answer(record: Record, i: int, n: int) -> Record:
    """The record with only the i-th response to each request."""
    return replace(
        record, requests=record.requests[i::n], responses=record.responses[i::n]
    )


def _is_copied(record: Record, n: int) -> bool:
    """Whether sampled answers are identical."""
    texts = [response.text for response in record.responses]
    is_sampled = [
        isinstance(request, Generate) and request.temperature > 0
        for request in record.requests
    ]
    groups = [texts[at : at + n] for at in range(0, len(texts), n)]
    return all(is_sampled) and all(len({*group}) == 1 for group in groups)
