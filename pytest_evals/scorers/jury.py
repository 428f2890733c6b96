"""Juries: several models, or one model several times, rate each answer, and vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from pytest_evals.core.dialogue import JUDGE, ModelSource
from pytest_evals.core.record import Score
from pytest_evals.core.request import Response, are_copies
from pytest_evals.errors import EvalsError

VOTES = ("majority", "mean", "all")
TIES: tuple[float | str, ...] = (0.5, "unscored")
MOST_MEMBERS = 100
Ties = float | Literal["unscored"]


class Ballot(NamedTuple):
    """The rating of one member."""

    member: str  # its name, for messages
    value: float = 0.0  # from 0 to 1
    passes: bool = False  # whether the value reaches the threshold
    shown: str = ""  # the rating as text
    reason: str = ""
    error: str = ""  # why the rating is missing; then nothing else is set
    reply: Response | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Jury:
    """The members of a jury and how they vote; by default a single judge."""

    members: tuple[str, ...] = ("judge",)  # names of the models, for messages
    repeats: int = 1  # how often each is asked
    vote: str = "majority"
    """``majority``: 1 if more than half of the members let an answer pass, 0 if fewer
    do; ``mean``: the mean of their values; ``all``: 1 if all let it pass."""
    ties: Ties = 0.5
    """What a majority of neither is: 0.5, which is not correct, or ``unscored``."""
    threshold: float = 0.5  # a value passes from here on

    @property
    def size(self) -> int:
        """Number of ratings of each answer."""
        return len(self.members) * self.repeats

    def score(self, ballots: Sequence[Ballot], metric: str, answer: str) -> Score:
        """The score of an answer. A member without a rating leaves it unscored."""
        score = Score(metric=metric, answer=answer)
        if errors := [one for one in ballots if one.error]:
            texts = [_named(one, one.error, self.size) for one in errors]
            return replace(score, unscored=f"judge: {'; '.join(texts)}")
        if self.size == 1:
            (one,) = ballots
            value, correct, why = one.value, one.passes, one.reason
            return replace(score, value=value, correct=correct, explanation=why)
        remark = ""
        if are_copies([one.reply for one in ballots if one.reply]):
            remark = f"{len(ballots)} repeats of one reply; "
            ballots = ballots[:1]
        n, n_passed = len(ballots), sum(one.passes for one in ballots)
        texts = [
            _named(one, f"{one.shown}: {one.reason}" if one.reason else one.shown, n)
            for one in ballots
        ]
        why = f"{remark}{n_passed} of {n} pass; {'; '.join(texts)}"
        score = replace(score, votes=(tuple(one.value for one in ballots),))
        rate = self._voted(ballots, n_passed)
        if rate is None:
            return replace(score, unscored=f"judge: the vote is tied: {why}")
        value, correct = rate
        return replace(score, value=value, correct=correct, explanation=why)

    def _voted(
        self, ballots: Sequence[Ballot], n_passed: int
    ) -> tuple[float, bool] | None:
        """The value, and whether the answer is correct; ``None`` if it is unscored."""
        n = len(ballots)
        if self.vote == "mean":
            value = sum(one.value for one in ballots) / n
            return value, value >= self.threshold
        if self.vote == "all":
            return float(n_passed == n), n_passed == n
        if 2 * n_passed == n:
            return (0.5, False) if self.ties == 0.5 else None
        return float(2 * n_passed > n), 2 * n_passed > n


def _named(ballot: Ballot, text: str, n: int) -> str:
    return f"{ballot.member}: {text}" if n > 1 else text


def jury_of(
    model: ModelSource,
    models: Sequence[ModelSource],
    repeats: int,
    vote: str | None,
    ties: Ties | None,
    threshold: float,
) -> tuple[Jury, tuple[ModelSource, ...]]:
    """The jury of a judge's arguments, and its models. Raises EvalsError if one is
    invalid."""
    sources = _sources(model, models)
    if not 1 <= repeats <= MOST_MEMBERS:
        raise EvalsError(f"judge: repeats is {repeats!r}, not 1 to {MOST_MEMBERS}")
    if repeats > 1 and len(sources) > 1:
        raise EvalsError(
            "judge: models and repeats are both set\n"
            "  fix: repeats asks one model several times"
        )
    if len(sources) * repeats == 1 and (vote is not None or ties is not None):
        key = "ties" if vote is None else "vote"
        raise EvalsError(
            f"judge: {key} has no effect on one judge\n"
            "  fix: models: [openai:a, openai:b, openai:c], or repeats: 3"
        )
    if vote is not None and vote not in VOTES:
        raise EvalsError(f"judge: vote is {vote!r}, not {', '.join(VOTES)}")
    if ties is not None and (isinstance(ties, bool) or ties not in TIES):
        raise EvalsError(f"judge: ties is {ties!r}, not 0.5 or unscored")
    if ties is not None and vote in ("mean", "all"):
        raise EvalsError(f"judge: ties has no effect with vote: {vote}")
    jury = Jury(
        members=member_names(sources),
        repeats=repeats,
        vote=vote or "majority",
        ties=0.5 if ties is None else ties,
        threshold=threshold,
    )
    return jury, sources


def _sources(model: Any, models: Any) -> tuple[ModelSource, ...]:
    if not models and models in ((), None):
        return (model,)
    if model != JUDGE:
        raise EvalsError("judge: model and models are both set\n  fix: keep one")
    is_list = isinstance(models, list | tuple)
    if not is_list or not 2 <= len(models) <= MOST_MEMBERS:
        raise EvalsError(
            f"judge: models is {models!r:.60}, not a list of two or more models\n"
            "  fix: models: [openai:a, openai:b, openai:c]"
        )
    for number, one in enumerate(models):
        if not callable(one) and not (isinstance(one, str) and one.strip()):
            raise EvalsError(f"judge: models has {one!r:.60}, not the spec of a model")
        if one in models[:number]:
            raise EvalsError(
                f"judge: models has {one!r:.60} twice\n"
                "  fix: to ask one model several times: model and repeats"
            )
    return tuple(models)


def member_names(sources: Sequence[ModelSource]) -> tuple[str, ...]:
    """Names of models for messages: specs without arguments, numbered if equal."""
    names = [
        (one.partition(",")[0] or "judge")
        if isinstance(one, str)
        else str(getattr(one, "__name__", "judge"))
        for one in sources
    ]
    return tuple(
        f"{name} {names[: n + 1].count(name)}" if names.count(name) > 1 else name
        for n, name in enumerate(names)
    )
