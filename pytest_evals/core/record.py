"""One document in a run, and its scores: each stage returns it with its own field set.

| field       | written by            | read by                              |
|-------------|-----------------------|--------------------------------------|
| `doc`       | dialects              | all                                  |
| `requests`  | dialects              | models                               |
| `responses` | `run.batches`            | scorers, reports                     |
| `exchanges` | `run.rounds`          | scorers, reports                     |
| `scores`    | `run.flow`            | metrics, reports, the item's outcome |
| `excluded`  | `run.flow`            | metrics, gates, reports              |
| `labels`    | `gates.documents`     | gates                                |
| `compared`  | `gates.documents`     | gates                                |
| `facts`     | `gates.documents`     | gates                                |
| `error`     | the stage that failed | reports, the item's outcome          |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from pytest_evals.core.dialogue import Exchange
from pytest_evals.core.doc import Doc
from pytest_evals.core.reference import ComparedValues
from pytest_evals.core.request import Generate, Request, Response


class Status(Enum):
    """The status of a document. An error is never a wrong answer."""

    SCORED = "scored"
    ERRORED = "errored"  # it could not be prompted, answered or scored
    UNSCORED = "unscored"
    """It was answered, but a judge or a scorer could not rate the answer."""
    MISSING = "missing"  # it was not run: deselected, not reached, or lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric's value for one document."""

    metric: str = ""  # the metric's name; custom scorers leave it empty
    filter: str = "none"  # the filter pipeline that the responses went through
    value: Any = None
    """A number, or any other value that the metric aggregates (such as a pair of
    reference and prediction)."""
    correct: bool | None = None
    """Whether the answer is correct; ``None`` if the metric does not determine it."""
    answer: str = ""
    """The answer for display: the selected choice, or the extracted text."""
    filtered: tuple[Any, ...] = ()
    """The output of the filter pipeline, one entry a request."""
    explanation: str = ""  # a judge's explanation, or the derivation of the value
    unscored: str = ""  # why there is no value
    repeats: tuple[Any, ...] = ()
    """The value of each answer, if there are several and a gate needs them."""
    repeat_answers: tuple[str, ...] = ()  # each of these answers, for display
    lender: str = ""
    """The metric whose function returned this value, if that function returns several,
    each with a custom name."""
    is_copied: bool = False
    """Whether these answers are identical although they were sampled: copies of one
    answer, and not independent."""
    is_deterministic: bool = False
    """Whether these answers are one, because the model is deterministic: gates count
    one answer."""
    is_tied: bool = False
    """Whether several choices are equally likely, so that the first of them was
    selected."""
    label: tuple[float, int] | None = None
    """A person's rating of the answer that a judge has rated, from 0 to 1, and the
    length of the answer in characters; ``None`` without one."""
    orders: tuple[float, ...] = ()
    """Whether the answer wins against another one when it comes first, and when it
    comes second: 1, 0.5 for a tie, or 0. Empty unless a judge compares pairs."""
    votes: tuple[tuple[float, ...], ...] = ()
    """For each answer, the ratings of the members of a jury; empty without one."""

    @property
    def key(self) -> str:
        """Metric and filter as results files name them: ``acc,none``."""
        return f"{self.metric},{self.filter}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One document with its requests, responses and scores."""

    task: str  # name of its task
    index: int
    """Position in the task's documents, after ``process_docs`` and before any
    selection."""
    doc: Doc
    requests: tuple[Request, ...] = ()
    """Its requests, in the order that the task's scorer expects."""
    responses: tuple[Response, ...] = ()  # one for each request
    exchanges: tuple[Exchange, ...] = ()
    """Follow-up requests and their responses, in order, of the tested model and of
    others."""
    scores: tuple[Score, ...] = ()  # one for each metric and filter
    error: str = ""  # why the document could not be scored; empty if it could
    excluded: str = ""
    """Why its scores are in no metric and no gate, although it was scored; empty if
    they are."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Values of the row's fields that gates cluster documents by, as text."""
    compared: ComparedValues | None = None
    """Answers and log-probabilities, for gates that compare two runs; ``None`` without
    such a gate."""
    facts: Mapping[str, tuple[float, ...] | None] = field(default_factory=dict)
    """Name of a metric of the run that a gate uses → its values here; ``None`` if
    unknown."""

    @property
    def status(self) -> Status:
        """Errored if any stage failed, unscored if a score has no value, else
        scored."""
        if self.error:
            return Status.ERRORED
        return Status.UNSCORED if self.fault else Status.SCORED

    @property
    def fault(self) -> str:
        """Why it is not scored: its error, or the reason of its first unscored
        score."""
        return self.error or next((s.unscored for s in self.scores if s.unscored), "")

    @property
    def correct(self) -> bool | None:
        """Whether the first metric that determines correctness is correct; ``None`` if
        none does, a score has no value, or the document is excluded."""
        if self.excluded:
            return None
        correct = None
        for score in self.scores:
            if score.unscored:
                return None
            if correct is None:
                correct = score.correct
        return correct

    @property
    def word(self) -> str:
        """Its result in one word: error, unscored, correct, wrong or scored."""
        if self.error:
            return "error"
        if self.status is Status.UNSCORED:
            return "unscored"
        return _WORDS[self.correct]

    def counts(self) -> Counts:
        """What the results of a task add up."""
        return Counts(self.status, self.correct, *self.token_counts())

    def token_counts(self) -> tuple[int, int, int, bool]:
        """The last four of :class:`Counts`."""
        n_prompt_tokens = n_tokens = n_truncated = 0
        is_limited = False
        for response in self.own_responses:
            n_prompt_tokens += response.n_prompt_tokens
            n_tokens += response.n_tokens
            n_truncated += response.n_truncated
            is_limited = is_limited or response.finish == "length"
        is_cut_short = is_limited and self.cut_short
        return n_prompt_tokens, n_tokens, n_truncated, is_cut_short

    @property
    def own_responses(self) -> tuple[Response, ...]:
        """All answers of the tested model, in order."""
        if not self.exchanges:
            return self.responses
        follow_ups = [one.response for one in self.exchanges if one.is_tested]
        return (*self.responses, *follow_ups)

    @property
    def all_responses(self) -> tuple[Response, ...]:
        """All answers, of auxiliary models too."""
        if not self.exchanges:
            return self.responses
        return (*self.responses, *(one.response for one in self.exchanges))

    @property
    def own_pairs(self) -> Iterator[tuple[Request, Response]]:
        """The requests to the tested model with their answers, in order."""
        yield from zip(self.requests, self.responses, strict=False)
        yield from ((one[1], one[2]) for one in self.exchanges if one.is_tested)

    @property
    def cut_short(self) -> bool:
        """Whether a generation of the tested model ended by a token limit below the
        request's own, because the context window was full or the server allows less.

        Unknown, and not counted, if a server does not count tokens.
        """
        if not any(response.finish == "length" for response in self.own_responses):
            return False
        if not self.requests and not self.exchanges:  # left out by :func:`slim`
            return True
        return any(_is_cut_short(*pair) for pair in self.own_pairs)

    @property
    def n_tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return sum(one.n_prompt_tokens + one.n_tokens for one in self.all_responses)


_WORDS = {True: "correct", False: "wrong", None: "scored"}


class Counts(NamedTuple):
    """A document in the counts of its task. Tokens are those of the tested model."""

    status: Status
    correct: bool | None
    n_prompt_tokens: int
    n_tokens: int
    n_truncated: int
    is_cut_short: bool


def _is_cut_short(request: Request, response: Response) -> bool:
    if not isinstance(request, Generate) or response.finish != "length":
        return False
    # max_length, as in lm-eval, limits prompt and answer together.
    has_other_limit = dict(request.options).get("max_length") is not None
    return 0 < response.n_tokens < request.max_tokens and not has_other_limit


def slim(record: Record) -> Record:
    """The record without the fields that only models and samples files need.

    The tested model's token counts stay, as one response with no other field, but for
    ``finish``: it is "length" if an answer was cut short. Called for each document, so
    equal values are created once: records are frozen.
    """
    return SlimRecord(
        task=record.task,
        index=record.index,
        doc=bare_doc(record.doc.id),
        responses=_counted(*record.token_counts()),
        scores=_bare_scores(record.scores),
        error=record.error,
        excluded=record.excluded,
        labels=record.labels or NO_VALUES,
        compared=record.compared,
        facts=record.facts or NO_VALUES,
    )


@lru_cache(maxsize=16_384)
def _counted(
    n_prompt_tokens: int, n_tokens: int, n_truncated: int, cut_short: bool
) -> tuple[Response, ...]:
    counts = Response(
        n_prompt_tokens=n_prompt_tokens,
        n_tokens=n_tokens,
        n_truncated=n_truncated,
        finish="length" if cut_short else "",
    )
    return (counts,)


_NOTHING: Any = ()
"""Shared by all records, instead of hundreds of thousands of empty lists."""


def bare_doc(id_: str) -> Doc:
    """A document of which only the id is kept."""
    return Doc(
        "",
        _NOTHING,
        0,
        id=id_,
        fewshot_samples=_NOTHING,
        sampling_methods=_NOTHING,
        row=NO_VALUES,
    )


NO_VALUES: Mapping[str, Any] = {}
"""An empty mapping that records share."""


class SlimRecord(Record):
    """A record that keeps only the id of its document, which is created on access: a
    document needs more memory than everything else in the record."""

    __slots__ = ()

    @property
    def doc(self) -> Doc:
        """A document with this id."""
        return bare_doc(_doc_field.__get__(self))

    @doc.setter
    def doc(self, doc: Doc) -> None:
        _doc_field.__set__(self, doc.id)


_doc_field: Any = vars(Record)["doc"]


def _bare_scores(scores: tuple[Score, ...]) -> tuple[Score, ...]:
    values = []
    for score in scores:
        value = score.value
        is_rare = score.repeats or score.lender or score.label or score.orders
        if is_rare or score.votes or score.is_tied or type(value) not in _NUMBERS:
            return tuple(
                [replace(one, answer="", filtered=(), explanation="") for one in scores]
            )
        # The type is part of the key, because 1 and 1.0 are equal.
        kind = type(value)
        fields = score.metric, score.filter, kind, value, score.correct, score.unscored
        values.append(fields)
    return _numbers(tuple(values))


_NUMBERS = frozenset({int, float, type(None)})


@lru_cache(maxsize=4096)
def _numbers(values: tuple[tuple[Any, ...], ...]) -> tuple[Score, ...]:
    return tuple(
        Score(
            metric=metric,
            filter=filter_,
            value=value,
            correct=correct,
            unscored=unscored,
        )
        for metric, filter_, _, value, correct, unscored in values
    )
