"""Generation engine: from encoded prompts to responses.

Sequences with equal sampling parameters are batched. Each ends on its own: at an
end-of-sequence token, at a stop string in its completion, or at its token limit. Greedy
completions equal those of lm-eval 0.4.13 with a batch size of 1; in larger batches
lm-eval continues each row until all rows contain the same stop string. If outputs
depend on the sequence length (see ``length_dependence``), long sequences are generated
one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any, NamedTuple

from torch import Tensor

from pytest_evals.core.request import Finish, Generate, Response, TopLogprobs
from pytest_evals.models.engine.completions import StopStrings, completion_of
from pytest_evals.models.engine.generation_options import (
    check_config,
    seed_of,
    slow_settings,
)
from pytest_evals.models.engine.scorer import NOT_A_NUMBER
from pytest_evals.models.hf.generation.decode import Decoder, UncachedDecoder
from pytest_evals.models.hf.generation.kv_cache import MemoryBudget
from pytest_evals.models.hf.generation.prefill import prompt_groups
from pytest_evals.models.hf.generation.sampling import (
    SamplingParams,
    sampling_params_of,
)
from pytest_evals.models.hf.generation.scheduler import Scheduler, SequenceState
from pytest_evals.models.hf.generation.transformers_fallback import (
    TransformersGenerator,
)
from pytest_evals.models.hf.length_dependence import (
    length_dependence_of,
    reset_rope_scale,
)
from pytest_evals.models.hf.loader import LoadedModel
from pytest_evals.models.prefetch import Answer, AnswerBatches
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)
from pytest_evals.models.tokens.spans import fit_prompt


class GenerationJob(NamedTuple):
    """A request with the prompt that the model gets."""

    position: int
    request: Generate
    prompt: Ids  # (T,) ids, at least one; fits the window with ``max_tokens``
    max_tokens: int  # Most new tokens, at least 1
    n_prompt: int  # Tokens of the whole prompt


class GenerationEngine:
    """Generates completions with a model."""

    def __init__(
        self,
        loaded: LoadedModel,
        encoder: RequestEncoder,
        steps: Callable[[], Decoder],
        budget: MemoryBudget,
    ) -> None:
        """``steps`` creates a decoder."""
        model = loaded.model
        self._model = model
        self._config = model.generation_config
        self._max_length = loaded.max_length
        self._think_end = loaded.settings.think_end_token
        self._encoder = encoder
        self._steps = steps
        self._budget = budget
        self._scaling = length_dependence_of(model.config)
        self._ends = _end_ids(model, encoder)
        self._library = TransformersGenerator(model, encoder, self._ends)
        self.notes: dict[str, None] = {}  # Warnings about the completions so far

    def check(self) -> None:
        """Check that all settings of the model's ``generation_config`` are supported.
        Raises ``ModelError`` if one is not."""
        check_config(self._config)

    def answer(
        self, requests: Mapping[int, Generate], prompts: Mapping[int, Ids]
    ) -> AnswerBatches:
        """Responses with the positions of their requests, as sequences finish, those of
        a step together. Unknown options and invalid values give an error response.
        ``requests``: the requests by position. ``prompts``: (T,) ids of the prompts of
        those that are to be answered."""
        groups: dict[SamplingParams, list[GenerationJob]] = {}
        slow = slow_settings(self._config)
        for position, ids in prompts.items():
            request, n = requests[position], len(ids)
            try:
                params = sampling_params_of(request, self._config, slow)
                kept, max_tokens = fit_prompt(request, n, self._max_length)
            except InvalidRequestError as error:
                yield [(position, Response(error=str(error)))]
                continue
            job = GenerationJob(position, request, ids[n - kept :], max_tokens, n)
            groups.setdefault(params, []).append(job)
        for params, jobs in groups.items():
            for ended in self._ended(self._rows(jobs), params):
                yield [self._answer(row, jobs[row.number]) for row in ended]

    def answer_batch(
        self,
        jobs: Sequence[GenerationJob],
        inputs: Mapping[str, Tensor],
        params: SamplingParams,
    ) -> list[Answer]:
        """Generate completions in one batch with transformers' ``generate``; a single
        one if ``params`` has slow settings. ``inputs``: the prompts as arguments of the
        model on its device: ``input_ids`` (B, T), padded on the left, and others, such
        as images."""
        begun, rows = time.perf_counter(), self._states(jobs)
        self._library.write(rows, inputs, params)
        found = []
        for row, job in zip(rows, jobs, strict=True):
            row.elapsed_s = (time.perf_counter() - begun) / len(rows)
            found.append(self._answer(row, job))
        return found

    def _ended(
        self, rows: Iterable[SequenceState], params: SamplingParams
    ) -> Iterator[Sequence[SequenceState]]:
        if params.slow:
            self.notes[_BY_LIBRARY.format(", ".join(params.slow))] = None
            return ([self._library.written(row, params)] for row in rows)
        return chain.from_iterable(
            self._flow(some, params) for some in self._together(rows)
        )

    def _flow(
        self, rows: Iterable[SequenceState], params: SamplingParams
    ) -> Iterator[Sequence[SequenceState]]:
        steps = self._steps()
        if isinstance(steps, UncachedDecoder):
            self.notes[_UNCACHED] = None
        flow = Scheduler(steps, self._budget, params, self._encoder, self._ends)
        return flow.run(rows)

    def _together(
        self, rows: Iterable[SequenceState]
    ) -> Iterator[Iterable[SequenceState]]:
        """Groups of sequences that may share a batch."""
        scaling = self._scaling
        if not scaling.length:
            yield rows
            return
        short: list[SequenceState] = []
        long: list[SequenceState] = []
        for row in rows:
            is_long = len(row.prompt) + row.max_tokens > scaling.length
            (long if is_long else short).append(row)
        yield short
        for row in long:
            row.branch = None
            if not scaling.by_column:
                reset_rope_scale(self._model)
                row.whole = True
                row.turn = scaling.length + 1 if scaling.turns else 0
            yield [row]
        if not scaling.by_column:
            reset_rope_scale(self._model)

    def _rows(self, jobs: Sequence[GenerationJob]) -> Iterator[SequenceState]:
        """The sequences in the order in which to start them."""
        rows, prompts = self._states(jobs), [job.prompt for job in jobs]
        costs = [len(job.prompt) + job.max_tokens for job in jobs]
        for leaf in prompt_groups(prompts, costs, self._budget.pass_cost):
            for number in leaf.members:
                rows[number].branch = leaf.branch
                yield rows[number]

    def _states(self, jobs: Sequence[GenerationJob]) -> list[SequenceState]:
        given = [tuple(stop for stop in job.request.stop if stop) for job in jobs]
        stops = {one: StopStrings(self._encoder, one) for one in given}
        return [
            SequenceState(
                number=number,
                prompt=job.prompt,
                max_tokens=job.max_tokens,
                stops=stops[given[number]],
                draws=Random(seed_of(job.request)),
            )
            for number, job in enumerate(jobs)
        ]

    def _answer(self, row: SequenceState, job: GenerationJob) -> Answer:
        error, tokens = row.refusal, row.tokens
        if row.lost and not error:
            error = f"{row.length} tokens do not fit into the device's memory"
        if error:
            return job.position, Response(error=error)
        found = completion_of(
            self._encoder, job.request, tokens, self._ends, self._think_end
        )
        is_thinking = self._think_end and not found.has_mark
        if is_thinking and row.stops.in_text(self._encoder.decode(tokens)):
            self.notes[_STOPPED_THINKING] = None
        if not row.finite:
            return job.position, Response(error=NOT_A_NUMBER, elapsed_s=row.elapsed_s)
        is_short = len(tokens) < row.max_tokens
        is_stopped = tokens[-1] in self._ends or is_short or found.is_cut
        finish: Finish = "stop" if is_stopped else "length"
        response = Response(
            text=found.text,
            n_prompt_tokens=job.n_prompt,
            n_tokens=len(tokens),
            n_truncated=job.n_prompt - len(job.prompt),
            finish=finish,
            elapsed_s=row.elapsed_s,
            top_logprobs=self._top(row),
        )
        return job.position, response

    def _top(self, row: SequenceState) -> TopLogprobs:
        name = self._encoder.name_of
        return tuple(
            (name(token), tuple((name(one), value) for one, value in top))
            for token, top in zip(row.tokens, row.tops, strict=False)
            if top
        )


_BY_LIBRARY = (
    "texts with {} were written one at a time by transformers' generate, which is slow"
)
_UNCACHED = (
    "texts are generated without a cache, which takes longer: with one this model does "
    "not give its usual numbers"
)
_STOPPED_THINKING = (
    "a stop string of the task ended an answer before think_end_token came, and what "
    "the model had thought so far was scored, as in lm-eval"
)


def _end_ids(model: Any, encoder: RequestEncoder) -> frozenset[int]:
    """Ids that end a sequence: of ``generation_config`` and of the tokenizer."""
    named = model.generation_config.eos_token_id
    ids = named if isinstance(named, list | tuple) else [named]
    return frozenset(int(i) for i in (*ids, encoder.end_id) if i is not None)
