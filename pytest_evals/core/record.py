"""One document on its way: each stage adds its own field and hands the record on.

| field       | written by                     | read by                               |
|-------------|--------------------------------|---------------------------------------|
| `doc`       | prompts                        | all                                   |
| `requests`  | prompts                        | models                                |
| `responses` | pipeline (answer)              | scorers, reports                      |
| `exchanges` | pipeline (answer)              | scorers, reports                      |
| `scores`    | pipeline (score)               | metrics, reports, the item's outcome  |
| `excluded`  | pipeline (score)               | metrics, gates, reports               |
| `labels`    | whoever keeps it after scoring | gates                                 |
| `facts`     | whoever keeps it after scoring | gates                                 |
| `error`     | whichever stage could not go on | reports, the item's outcome          |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_evals.core.dialogue import Exchange
from pytest_evals.core.doc import Doc
from pytest_evals.core.reference import Compared
from pytest_evals.core.request import Generate, Request, Response
from pytest_evals.core.score import Score, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One document with what was asked about it, what came back, and how good that is.

    Args:
        task: Name of its task.
        index: Position in the task's documents, after ``process_docs`` and before any
            selection.
        doc: What is asked.
        requests: What the model is asked, in the order that the task's scorer expects.
        responses: One a request.
        exchanges: Follow-up requests and their responses, in order, of the tested model
            and of others.
        scores: One a metric and filter.
        error: Why the document could not be scored; empty if nothing went wrong.
        excluded: Why its scores are in no metric and no gate, though it was scored;
            empty if they are.
        labels: Fields of its row that gates group documents by, as text.
        compared: Answers and log-probabilities, for gates that compare two runs;
            ``None`` without such a gate.
        facts: Name of a metric of the run that a gate names → its values here; ``None``
            if they are not known.
    """

    task: str
    index: int
    doc: Doc
    requests: tuple[Request, ...] = ()
    responses: tuple[Response, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    scores: tuple[Score, ...] = ()
    error: str = ""
    excluded: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    compared: Compared | None = None
    facts: Mapping[str, tuple[float, ...] | None] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """Errored if any stage failed, unscored if a score has no value, else
        scored."""
        if self.error:
            return Status.ERRORED
        for score in self.scores:
            if score.unscored:
                return Status.UNSCORED
        return Status.SCORED

    @property
    def correct(self) -> bool | None:
        """Whether the first metric that can tell right from wrong says right; ``None``
        if none can, or the document is excluded."""
        if self.excluded:
            return None
        for score in self.scores:
            if score.correct is not None:
                return score.correct
        return None

    @property
    def said(self) -> tuple[Response, ...]:
        """All answers of the tested model, in order."""
        if not self.exchanges:
            return self.responses
        own = [one.response for one in self.exchanges if not one.model]
        return (*self.responses, *own)

    @property
    def cut_short(self) -> bool:
        """Whether a text of the tested model ended by a limit of tokens before the
        request's own, since the model's window was full or its server allows less.

        Unknown, and not counted, where a server does not count tokens.
        """
        if not any(response.finish == "length" for response in self.said):
            return False
        if not self.requests and not self.exchanges:  # left out by ``core.slim``
            return True
        own = [(one.request, one.response) for one in self.exchanges if not one.model]
        pairs = (*zip(self.requests, self.responses, strict=False), *own)
        return any(_is_cut_short(request, response) for request, response in pairs)

    @property
    def n_tokens(self) -> int:
        """Tokens of all prompts and answers."""
        n = 0
        for response in self.responses:
            n += response.n_prompt_tokens + response.n_tokens
        for exchange in self.exchanges:
            n += exchange.response.n_prompt_tokens + exchange.response.n_tokens
        return n


def _is_cut_short(request: Request, response: Response) -> bool:
    if not isinstance(request, Generate) or response.finish != "length":
        return False
    # Under max_length, as lm-eval has it, the answer's own limit is another one.
    has_other_limit = dict(request.options).get("max_length") is not None
    return 0 < response.n_tokens < request.max_tokens and not has_other_limit
