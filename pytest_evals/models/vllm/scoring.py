"""Log-probabilities from vLLM, as a scoring strategy of the ``hf:`` model's scorer.

Sequences share their prefixes through vLLM's prefix cache, in stages: sequences of one
engine step do not see each other's blocks, so a shared prefix is computed by one
sequence in an earlier stage, and the others follow.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from pytest_evals.models.engine.device_memory import BatchBudget
from pytest_evals.models.engine.scorer import ScoredBatch, SpanResult, SpanScore
from pytest_evals.models.prefix_order import prefix_order
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import InvalidRequestError
from pytest_evals.models.tokens.spans import ScoredSpan, shared_lengths
from pytest_evals.models.vllm.engine import (
    EngineOutput,
    EngineRequest,
    VllmEngine,
    rejections,
    sampling_params,
)

SHARED_BLOCKS = 2  # Minimum length of a shared prefix that justifies a stage, in blocks


def stages(sequences: Sequence[Ids], block: int, capacity: int) -> Iterator[list[int]]:
    """Positions of the sequences in stages, each of which is to be finished before the
    next one begins. ``sequences``: (T,) ids each. ``block``: tokens of a block of the
    cache. ``capacity``: tokens that the cache holds. Sequences whose stages do not fit
    together are run one after the other."""
    order = prefix_order([ids.tobytes() for ids in sequences])
    lengths = [len(sequences[i]) for i in order]
    shared = shared_lengths([sequences[i] for i in order]).tolist()
    start = n_tokens = 0
    for end, length in enumerate(lengths):
        if end > start and n_tokens + length - shared[end] > capacity:
            yield from _stages(order, lengths, shared, block, range(start, end))
            start, n_tokens, shared[end] = end, 0, 0
        n_tokens += length - shared[end]
    yield from _stages(order, lengths, shared, block, range(start, len(order)))


def _stages(
    order: Sequence[int],
    lengths: Sequence[int],
    shared: Sequence[int],
    block: int,
    places: range,
) -> Iterator[list[int]]:
    blocks = [(lengths[i] // block, shared[i] // block) for i in places]
    found = sorted(zip(stage_numbers(blocks), places, strict=True))
    for _, members in groupby(found, key=lambda pair: pair[0]):
        yield [order[place] for _, place in members]


def stage_numbers(blocks: Sequence[tuple[int, int]]) -> list[int]:
    """The stage of each sequence: one more than that of the sequence which computes its
    prefix first, 0 without a shared prefix. ``blocks``: sequences in prefix order:
    blocks of each, and blocks at its beginning that the previous one has too."""
    numbers: list[int] = []
    path: list[tuple[int, int]] = []  # (blocks, stage that computes them first)
    for length, common in blocks:
        while path and path[-1][0] > common:
            _, number = path.pop()
            if common and (not path or path[-1][0] < common):
                path.append((common, number))
        number = path[-1][1] + 1 if path and common >= SHARED_BLOCKS else 0
        numbers.append(number)
        if length > common:
            path.append((length, number))
    return numbers


Scores = dict[int, SpanResult]
CANDIDATES = 128  # Most token ids (vLLM 0.32, ``MAX_LOGPROB_TOKEN_IDS``)
TOLERANCES = {"float32": 1e-3}
OTHER_TOLERANCE = 0.25
"""Nats by which two ways to compute a log-probability may differ: logits in half
precision are multiples of 1/16 or 1/8."""
NO_CANDIDATES = (
    "choices of one token are scored as whole prompts, which takes longer: the "
    "log-probabilities that vLLM returns for selected tokens are not those of its "
    "prompts"
)
NO_REUSE = (
    "reuse_prefix=true has no effect: with its prefix cache this vLLM does not return "
    "the log-probabilities that it returns without"
)


class VllmScoring:
    """Computes log-probabilities of spans with vLLM.

    vLLM recomputes the whole prompt if log-probabilities of the prompt are requested,
    so two kinds of requests avoid that:

    - Spans of one scored token with equal contexts become one request that generates a
      token and returns the log-probabilities of the candidates.
    - With ``reuse_prefix``, prompts read the cache in spite of their log-probabilities.
      Rows of cached tokens are undefined, so a result counts only if all scored tokens
      come after the cached ones; otherwise the span is scored again without the cache.
    """

    name = "vllm"

    def __init__(self, engine: VllmEngine, *, reuses_prefix: bool) -> None:
        """Run the self-tests, against plain prompt log-probabilities."""
        self._engine = engine
        self.n_cached = 0  # Prompt tokens that were read from the cache
        self.n_prompt = 0  # Prompt tokens of all requests
        self.has_candidates = self.reuses_prefix = False
        plain = self._trial()
        self.has_candidates = self._agrees(plain, candidates=True)
        if reuses_prefix:
            self.reuses_prefix = self._agrees(plain, reuses=True)
        self.note = "" if self.has_candidates else NO_CANDIDATES
        if reuses_prefix and not self.reuses_prefix:
            self.note = "; ".join(filter(None, (self.note, NO_REUSE)))
        self.n_cached = self.n_prompt = 0

    def score(
        self, spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        """Score all spans, in vLLM's own batches; yields the results of each step."""
        del budget
        begun = time.perf_counter()
        for scores in self._scored(spans):
            now = time.perf_counter()
            yield ScoredBatch(scores, now - begun)
            begun = now

    def forget(self) -> None:
        """vLLM frees cached prefixes when it needs their memory."""

    def _scored(self, spans: Sequence[ScoredSpan]) -> Iterator[Scores]:
        singles: list[int] = []
        others: list[int] = []
        for i, span in enumerate(spans):
            is_single = span.n_scored == 1 and self.has_candidates
            (singles if is_single else others).append(i)
        if singles:
            yield from self._score_candidates(spans, singles)
        if others and self.reuses_prefix:
            yield from self._score_cached(spans, others)
        elif others:
            yield from self._score_prompts(spans, others)

    def _score_candidates(
        self, spans: Sequence[ScoredSpan], numbers: Sequence[int]
    ) -> Iterator[Scores]:
        contexts = _contexts(spans, numbers)
        ids = [one.ids for one in contexts]
        for outputs in self._staged(ids, lambda i: contexts[i].params()):
            yield {
                number: score
                for one in outputs
                for number, score in contexts[one.key].scores(one).items()
            }

    def _score_cached(
        self, spans: Sequence[ScoredSpan], numbers: Sequence[int]
    ) -> Iterator[Scores]:
        """Score whole prompts with the prefix cache."""
        uncached: list[int] = []
        params = _params(prompt_logprobs=0, skip_reading_prefix_cache=False)
        for outputs in self._staged(
            [spans[i].tokens for i in numbers], lambda _: params
        ):
            done: Scores = {}
            for one in outputs:
                number = numbers[one.key]
                if _is_complete(one, spans[number]):
                    done[number] = _score(one, spans[number])
                else:
                    uncached.append(number)
            yield done
        if uncached:
            yield from self._score_prompts(spans, uncached)

    def _score_prompts(
        self, spans: Sequence[ScoredSpan], numbers: Sequence[int]
    ) -> Iterator[Scores]:
        params = _params(prompt_logprobs=0)
        requests = (EngineRequest(i, spans[i].tokens.tolist(), params) for i in numbers)
        for outputs in self._run(requests):
            yield {one.key: _score(one, spans[one.key]) for one in outputs}

    def _staged(
        self, sequences: Sequence[Ids], params: Callable[[int], Any]
    ) -> Iterator[list[EngineOutput]]:
        """The outputs of sequences, stage by stage; their keys are positions."""
        engine = self._engine
        for stage in stages(sequences, engine.block_size, engine.cache_tokens // 2):
            yield from self._run(
                EngineRequest(i, sequences[i].tolist(), params(i)) for i in stage
            )

    def _run(self, requests: Iterable[EngineRequest]) -> Iterator[list[EngineOutput]]:
        for outputs in self._engine.run(requests):
            for one in outputs:
                if one.output is not None:
                    self.n_prompt += len(one.output.prompt_token_ids or ())
                    self.n_cached += one.output.num_cached_tokens or 0
            yield outputs

    def _trial(self) -> Scores:
        found: Scores = {}
        for scores in self._scored(_trial_spans(self._engine)):
            found |= scores
        return found

    def _agrees(
        self, plain: Scores, *, candidates: bool = False, reuses: bool = False
    ) -> bool:
        """Whether a faster way gives the log-probabilities of the plain one."""
        before = self.has_candidates, self.reuses_prefix
        self.has_candidates, self.reuses_prefix = candidates, reuses
        try:
            found = self._trial()
        except rejections():  # another vLLM, without these parameters
            return False
        finally:
            self.has_candidates, self.reuses_prefix = before
        dtype = str(self._engine.config.model_config.dtype).removeprefix("torch.")
        most = TOLERANCES.get(dtype, OTHER_TOLERANCE)
        return all(_is_near(one, found.get(i), 2 * most) for i, one in plain.items())


@dataclass(slots=True)
class _Context:
    ids: Ids
    spans: Mapping[int, int]  # Number of a span → its scored token

    def params(self) -> Any:
        return _params(logprob_token_ids=sorted(set(self.spans.values())))

    def scores(self, one: EngineOutput) -> Scores:
        if one.error:
            return dict.fromkeys(self.spans, InvalidRequestError(one.error))
        (completion,) = one.output.outputs
        (greedy,) = completion.token_ids[:1]
        values = completion.logprobs[0]
        return {
            number: _span_score([values[token].logprob], token == greedy)
            for number, token in self.spans.items()
        }


def _contexts(spans: Sequence[ScoredSpan], numbers: Sequence[int]) -> list[_Context]:
    members: dict[tuple[bytes, int], dict[int, int]] = {}
    counts = Counter[bytes]()
    for i in numbers:
        context = spans[i].tokens[:-1].tobytes()
        key = context, counts[context] // CANDIDATES
        counts[context] += 1
        members.setdefault(key, {})[i] = int(spans[i].tokens[-1])
    return [_Context(spans[next(iter(m))].tokens[:-1], m) for m in members.values()]


def _params(**given: Any) -> Any:
    return sampling_params(temperature=0.0, max_tokens=1, detokenize=False, **given)


def _is_complete(one: EngineOutput, span: ScoredSpan) -> bool:
    """Whether the log-probabilities of all scored tokens were computed. The row of a
    token is that of the token before it."""
    if one.error:
        return True
    n_context = len(span.tokens) - span.n_scored
    return (one.output.num_cached_tokens or 0) <= n_context - 1


def _score(one: EngineOutput, span: ScoredSpan) -> SpanResult:
    if one.error:
        return InvalidRequestError(one.error)
    rows = one.output.prompt_logprobs
    start = len(span.tokens) - span.n_scored
    found = [rows[i][t] for i, t in enumerate(span.tokens.tolist()) if i >= start]
    return _span_score([f.logprob for f in found], all(f.rank == 1 for f in found))


def _span_score(logprobs: Sequence[float], greedy: bool) -> SpanScore:
    total = math.fsum(logprobs)
    return SpanScore(total, greedy, math.isfinite(total))


def _is_near(one: SpanResult, other: SpanResult | None, most: float) -> bool:
    if not isinstance(one, SpanScore) or not isinstance(other, SpanScore):
        return False
    return abs(one.logprob - other.logprob) <= most


def _trial_spans(engine: VllmEngine) -> list[ScoredSpan]:
    """Spans of one and of two scored tokens after two contexts, which share a prefix
    of more than two blocks if the window has room for it."""
    n = max(1, min(2 * engine.block_size + 5, engine.max_length - 8))
    numbers = np.arange(n + 8, dtype=np.int32)
    tokens = (numbers * 31 + 7) % max(1, min(engine.vocab_size, 997))
    context, rest = tokens[:n].astype(np.int32), tokens[n:].astype(np.int32)
    ends = [rest[:1], rest[1:2], rest[2:4], rest[3:5], rest[:3], rest[1:4]]
    return [
        ScoredSpan(np.concatenate([context, end]), min(2, len(end)))
        for end in ends
        if n + len(end) < engine.max_length
    ]
