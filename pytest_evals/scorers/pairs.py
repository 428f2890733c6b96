"""Judges that compare two answers, in both orders.

Judges often prefer the answer in one position. So each pair is judged twice, with the
answers swapped: an answer wins or loses only if both verdicts agree, else it is a tie
(Zheng et al. 2023, arXiv 2306.05685).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_evals.core.case import Case
from pytest_evals.core.dialogue import JUDGE, Dialogue, ModelSource, together
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response
from pytest_evals.errors import DocumentError, EvalsError
from pytest_evals.scorers.arguments import checked_arguments
from pytest_evals.scorers.judge_replies import read_values, reason_of, reply_text
from pytest_evals.scorers.model_scorer import asked_again, closed_object
from pytest_evals.scorers.rubric import RubricScorer
from pytest_evals.scorers.templates import ScorerTemplate

_SYSTEM = (
    "You compare two answers of other models by a rubric. Be strict and fair. The "
    "order of the answers means nothing, and longer answers are not better for their "
    "length."
)
_KEY = "better"
_FIRST_WINS = {"1": 1.0, "tie": 0.5, "2": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairScorer(RubricScorer):
    """A judge that compares the answer with another one. ``versus``: the other
    answer; a template over the case's row."""

    versus: str

    @property
    def is_graded(self) -> bool:
        """Whether a score may be another one than 0 and 1: 0.5 is a tie."""
        return True

    @property
    def templates(self) -> tuple[ScorerTemplate, ...]:
        """All texts that are rendered for each case."""
        return (*self._of_rubric, self._other)

    @property
    def _other(self) -> ScorerTemplate:
        return ScorerTemplate(f"{self.name}: versus", self.versus)

    def dialogue(self, answered: Response, case: Case) -> Dialogue[Score]:
        """Send both orders to the judge and return the score."""
        answer = answered.text
        other = self._other.whole_text(case)
        if not other.strip():
            raise DocumentError(f"{self.name}: versus is empty")
        requests = [
            self.request(_SYSTEM, (("answer_1", a), ("answer_2", b)), answered, case)
            for a, b in ((answer, other), (other, answer))
        ]
        asked = [
            asked_again(self.roles[0], one, _first_wins, self.instructions)
            for one in requests
        ]
        try:
            (first, why), (second, why_swapped) = yield from together(asked)
        except DocumentError as error:
            return self.unscored(answered, error)
        orders = (first, 1 - second)
        value = orders[0] if orders[0] == orders[1] else 0.5
        explanation = f"first: {why}; second: {why_swapped}"
        if orders[0] != orders[1]:
            explanation = f"the verdict depends on the order; {explanation}"
        return replace(self.scored(answered, value, explanation), orders=orders)

    @property
    def instructions(self) -> str:
        """The end of the request: the form of the reply."""
        return (
            'Reply with one JSON object: "reason" (one or two sentences), then '
            f'"{_KEY}": "1" or "2" for the answer that meets the rubric better, or '
            '"tie".'
        )

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the judge's reply; the reason comes first."""
        better = {"type": "string", "enum": [*_FIRST_WINS]}
        return closed_object({"reason": {"type": "string"}, _KEY: better})

    def rating(self, given: Any) -> float:
        """A person's label: true if the answer wins, false if it loses, 0.5 for a tie.
        Raises DocumentError if it is another value."""
        return 0.5 if given == 0.5 else RubricScorer.rating(self, given)


@checked_arguments
def pairwise(  # noqa: PLR0913 - the keys of the scorer in YAML
    rubric: str,
    *,
    versus: str,
    threshold: float = 0.5,
    model: ModelSource = JUDGE,
    structured: bool = True,
    labels: str | Path = "",
    sampled: str = "",
    name: str = "pairwise",
) -> RubricScorer:
    """Compare answers with another answer by a model and a rubric, in both orders: 1 if
    the answer wins, 0 if it loses, 0.5 for a tie or if the order decides.

    Args:
        rubric: What a better answer does; a template over the case's row.
        versus: The other answer, such as ``"{{last_release}}"``; a template over the
            case's row.
        threshold: A case is correct from this value on.
        model: Spec of the judging model; by default that of ``--evals-judge``.
        structured: Whether the reply's schema is sent as ``response_format``.
        labels: As in :func:`~pytest_evals.scorers.rubric.judge`.
        sampled: As in :func:`~pytest_evals.scorers.rubric.judge`.
    """
    for key, text in (("rubric", rubric), ("versus", versus)):
        if not text.strip():
            raise EvalsError(f"pairwise: {key} is {text!r}, not text")
    settings: Mapping[str, Any] = {
        "rubric": rubric,
        "versus": versus,
        "threshold": threshold,
        "model": model if isinstance(model, str) else None,
    }
    return PairScorer(
        name=name,
        rubric=rubric,
        versus=versus,
        threshold=threshold,
        sources=(model,),
        structured=structured,
        settings={"pairwise": settings},
        labels_file=labels,
        sampled=sampled,
    )


def _first_wins(response: Response) -> tuple[float, str]:
    found = read_values(reply_text(response), [_KEY])
    given = found[_KEY]
    is_whole = isinstance(given, float) and given.is_integer()
    better = str(int(given) if is_whole else given).strip().removesuffix(".").lower()
    if isinstance(given, bool) or better not in _FIRST_WINS:
        raise DocumentError(f"{_KEY} is not 1, 2 or tie: {given!r:.80}")
    return _FIRST_WINS[better], reason_of(found)
