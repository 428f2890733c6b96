"""Choices of one token: one request returns the log-probabilities of all choices of a
context (``logprob_token_ids`` of vLLM's completions).

A server that scores prompts computes each of them from the start; such a request
generates a token instead, and reads the server's prefix cache.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_evals.core.request import Response
from pytest_evals.models.http.errors import RequestFailedError
from pytest_evals.models.openai.client import Reply
from pytest_evals.models.openai.prompt_logprobs import TOLERANCE, logprob_of
from pytest_evals.models.openai.request_bodies import choice_of

if TYPE_CHECKING:
    from pytest_evals.models.tokens.spans import ScoredSpan

MOST = 128  # Most token ids of a request (vLLM 0.32, ``MAX_LOGPROB_TOKEN_IDS``)


class Candidate(NamedTuple):
    """A token after a context."""

    logprob: float
    greedy: bool  # Whether it is the generated token


Ask = Callable[[Sequence[int], Sequence[int]], Awaitable[Mapping[int, Candidate]]]
"""A function from the ids of a context and of candidates to the candidates' values."""


@dataclass(slots=True)
class CandidateScorer:
    """Scores spans of one token; belongs to the event loop of a server."""

    ask: Ask
    groups: dict[tuple[bytes, int], list[int]] = field(default_factory=dict)
    """Context and part → candidates, for the requests of a batch."""
    parts: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """Context and candidate → the part that contains it."""
    tasks: dict[tuple[bytes, int], asyncio.Task[Mapping[int, Candidate]]] = field(
        default_factory=dict
    )
    """Requests that were sent, by context and part."""

    @property
    def group_size(self) -> int:
        """The largest number of choices that share a request, at least 1."""
        return max(map(len, self.groups.values()), default=1)

    def prepare(self, spans: Iterable[ScoredSpan]) -> None:
        """Group the spans of a batch by their contexts; others are ignored."""
        self.groups, self.parts, self.tasks = {}, {}, {}
        counts: dict[bytes, int] = {}
        for span in spans:
            if span.n_scored != 1:
                continue
            context, token = _split(span)
            if (context, token) in self.parts:
                continue
            n = counts.get(context, 0)
            counts[context] = n + 1
            self.parts[context, token] = n // MOST
            self.groups.setdefault((context, n // MOST), []).append(token)

    async def score(self, span: ScoredSpan) -> Response:
        """The response for a span of one token."""
        context, token = _split(span)
        key = context, self.parts[context, token]
        task = self.tasks.get(key)
        if task is None:
            ids = span.tokens[:-1].tolist()
            task = asyncio.ensure_future(self.ask(ids, self.groups[key]))
            self.tasks[key] = task
        found = (await asyncio.shield(task))[token]
        return Response(
            logprob=found.logprob,
            greedy=found.greedy,
            n_prompt_tokens=len(span.tokens) - 1,
            n_tokens=1,
        )


def read_candidates(reply: Reply, tokens: Sequence[int]) -> Mapping[int, Candidate]:
    """The candidates' values in a reply; ``RequestFailedError`` if a value is missing,
    or higher than that of the generated token, which is then not the most likely one
    (penalties in the server's ``generation_config.json``)."""
    found = choice_of(reply).get("logprobs")
    found = found if isinstance(found, dict) else {}
    rows, words = found.get("top_logprobs"), found.get("tokens")
    row = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(row, dict) or not isinstance(words, list) or not words:
        raise RequestFailedError("it gives no log-probabilities of selected tokens")
    generated = re.fullmatch(r"token_id:(\d+)", str(words[0]))
    if generated is None:
        raise RequestFailedError(f"it gives {words[0]!r:.60} for a token id")
    best, highest = int(generated[1]), logprob_of(row.get(generated[0]))
    candidates: dict[int, Candidate] = {}
    for token in tokens:
        value = logprob_of(row.get(f"token_id:{token}"))
        if value is None:
            raise RequestFailedError(
                f"it gives no log-probability of the token {token}"
            )
        if highest is not None and value > highest + TOLERANCE:
            raise RequestFailedError(
                f"the token {token} is more likely than {best}, which it generated at "
                "temperature 0; turn off the server's penalties, as in extra_body="
                '{"repetition_penalty":1}'
            )
        candidates[token] = Candidate(value, token == best)
    return candidates


def _split(span: ScoredSpan) -> tuple[bytes, int]:
    return span.tokens[:-1].tobytes(), int(span.tokens[-1])
