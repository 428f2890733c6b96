"""Scores of each of several answers to one document, beside that of all of them.

The task's own filters see all answers at once (lm-eval's ``take_first`` takes the
first). Gates that count the noise between answers, or want ``pass@k``, need each answer
scored as if it were the only one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pytest_evals.core.record import Record, Score
from pytest_evals.core.request import Generate
from pytest_evals.dialects.lm_eval.scoring.scorer import Scorer
from pytest_evals.errors import DocumentError


@dataclass(frozen=True, slots=True)
class Repeats:
    """A scorer that keeps the value of each answer.

    Args:
        scorer: The task's.
    """

    scorer: Scorer
    _once: Scorer = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the scorer of a single answer once."""
        object.__setattr__(self, "_once", replace(self.scorer, repeats=1))

    def __call__(self, record: Record) -> tuple[Score, ...]:
        """The scores, with the values of all answers where each can be scored alone.

        Raises:
            DocumentError: The document cannot be scored at all.
        """
        scores, n = self.scorer(record), self.scorer.repeats
        try:
            single = [self._once(_answer(record, i, n)) for i in range(n)]
        except DocumentError:  # a filter that takes several answers to begin with
            return scores
        found = [{score.key: score for score in one} for one in single]
        copied = _is_copied(record, n)
        return tuple(
            _with(score, [one[score.key] for one in found], copied)
            if all(score.key in one for one in found)
            else score
            for score in scores
        )


def _answer(record: Record, i: int, n: int) -> Record:
    """The record as if each request had been asked once, for the i-th time."""
    return replace(
        record, requests=record.requests[i::n], responses=record.responses[i::n]
    )


def _with(score: Score, single: list[Score], copied: bool) -> Score:
    return replace(
        score,
        repeats=tuple(one.value for one in single),
        repeat_answers=tuple(one.answer for one in single),
        is_copied=copied,
    )


def _is_copied(record: Record, n: int) -> bool:
    """Whether answers that were drawn at random are the same text each time."""
    texts = [response.text for response in record.responses]
    drawn = [
        isinstance(request, Generate) and request.temperature > 0
        for request in record.requests
    ]
    groups = [texts[at : at + n] for at in range(0, len(texts), n)]
    return all(drawn) and all(len({*group}) == 1 for group in groups)
