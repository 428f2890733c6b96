"""Generation engine: groups sequences into batches and returns their strings.

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
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any, NamedTuple

from torch import Tensor

from pytest_evals.core.request import Finish, TopLogprobs
from pytest_evals.models.engine.completions import (
    StopStrings,
    answer_text,
    cut_at_stops,
)
from pytest_evals.models.hf.generation.decode import Decoder, UncachedDecoder
from pytest_evals.models.hf.generation.memory_budget import MemoryBudget
from pytest_evals.models.hf.generation.prefill import prompt_groups
from pytest_evals.models.hf.generation.sampling import SamplingParams
from pytest_evals.models.hf.generation.scheduler import Scheduler, SequenceState
from pytest_evals.models.hf.generation.transformers_fallback import (
    TransformersGenerator,
)
from pytest_evals.models.hf.length_dependence import (
    length_dependence_of,
    reset_rope_scale,
)
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import (
    InvalidRequestError,
    RequestEncoder,
)


@dataclass(frozen=True, slots=True, eq=False)
class GenerationInput:
    """A prompt and its limits."""

    prompt: Ids
    """(T,) ids, at least one; together with ``max_tokens`` no longer than the model's
    window."""
    max_tokens: int  # Most new tokens, at least 1
    stop: tuple[str, ...]  # Stop strings, none of them empty
    seed: int = 0
    specials: bool = False  # Whether special tokens are part of the text

    @property
    def cost(self) -> int:
        """Maximum length of the sequence in tokens."""
        return len(self.prompt) + self.max_tokens


class GenerationOutput(NamedTuple):
    """A generated completion."""

    text: str  # The text, cut at the stop strings
    n_tokens: int  # New tokens, with the one that ended it
    finish: Finish
    elapsed_s: float  # Its share of the batches' time in seconds
    finite: bool = True  # Whether all logits were finite
    top_logprobs: TopLogprobs = ()  # Top log-probabilities of each token, if requested


class GenerationEngine:
    """Generates completions with a model."""

    def __init__(
        self,
        model: Any,
        encoder: RequestEncoder,
        steps: Callable[[], Decoder],
        budget: MemoryBudget,
        think_end: str = "",
    ) -> None:
        """``steps`` creates a decoder; ``think_end`` is the string, or the id as
        digits, that ends the model's thinking."""
        self._model = model
        self._encoder = encoder
        self._steps = steps
        self._budget = budget
        self._think_end = think_end
        self._scaling = length_dependence_of(model.config)
        self._ends = _end_ids(model, encoder)
        self._library = TransformersGenerator(model, encoder, self._ends)
        self._end_text = encoder.end_text
        self.notes: dict[str, None] = {}  # Warnings about the completions so far

    def write(
        self, writings: Sequence[GenerationInput], params: SamplingParams
    ) -> Iterator[Sequence[tuple[int, GenerationOutput | InvalidRequestError]]]:
        """Generate all completions; yields the positions and outputs of those that
        finish together."""
        for ended in self._ended(self._rows(writings), params):
            yield [
                (row.number, self._finished(row, writings[row.number].specials))
                for row in ended
            ]

    def write_batch(
        self,
        writings: Sequence[GenerationInput],
        inputs: Mapping[str, Tensor],
        params: SamplingParams,
    ) -> list[GenerationOutput | InvalidRequestError]:
        """Generate completions in one batch with transformers' ``generate``; a single
        one if ``params`` has slow settings.

        Args:
            inputs: The prompts as arguments of the model on its device: ``input_ids``
                (B, T), padded on the left, and others, such as images.
        """
        begun, rows = time.perf_counter(), self._states(writings)
        self._library.write(rows, inputs, params)
        found = []
        for row, writing in zip(rows, writings, strict=True):
            row.elapsed_s = (time.perf_counter() - begun) / len(rows)
            found.append(self._finished(row, writing.specials))
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

    def _rows(self, writings: Sequence[GenerationInput]) -> Iterator[SequenceState]:
        """The sequences in the order in which to start them."""
        rows, pays = self._states(writings), self._budget.pass_cost
        prompts = [w.prompt for w in writings]
        for leaf in prompt_groups(prompts, [w.cost for w in writings], pays):
            for number in leaf.members:
                rows[number].branch = leaf.branch
                yield rows[number]

    def _states(self, writings: Sequence[GenerationInput]) -> list[SequenceState]:
        stops = {w.stop: StopStrings(self._encoder, w.stop) for w in writings}
        return [
            SequenceState(
                number=number,
                prompt=writing.prompt,
                max_tokens=writing.max_tokens,
                stops=stops[writing.stop],
                draws=Random(writing.seed),
            )
            for number, writing in enumerate(writings)
        ]

    def _finished(
        self, row: SequenceState, specials: bool
    ) -> GenerationOutput | InvalidRequestError:
        if row.refusal:
            return InvalidRequestError(row.refusal)
        if row.lost:
            return InvalidRequestError(
                f"{row.length} tokens do not fit into the device's memory"
            )
        tokens = row.tokens
        text = self._after_thinking(row, specials)
        shown = cut_at_stops(text, (*row.stops.strings, self._end_text))
        stopped = (
            tokens[-1] in self._ends or len(tokens) < row.max_tokens or shown != text
        )
        finish: Finish = "stop" if stopped else "length"
        return GenerationOutput(
            shown, len(tokens), finish, row.elapsed_s, row.finite, self._top(row)
        )

    def _top(self, row: SequenceState) -> TopLogprobs:
        name = self._encoder.name_of
        return tuple(
            (name(token), tuple((name(one), value) for one, value in top))
            for token, top in zip(row.tokens, row.tops, strict=False)
            if top
        )

    def _after_thinking(self, row: SequenceState, specials: bool) -> str:
        """The completion without the model's thinking."""
        mark, tokens = self._think_end, row.tokens
        if specials and tokens[-1] in self._ends:
            tokens = tokens[:-1]
        text, has_mark = answer_text(self._encoder, tokens, mark, specials=specials)
        if (
            mark
            and not has_mark
            and row.stops.in_text(self._encoder.decode(row.tokens))
        ):
            self.notes[_STOPPED_THINKING] = None
        return text


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
    """Ids of end-of-sequence tokens: those of the model's ``generation_config`` and the
    tokenizer's."""
    named = model.generation_config.eos_token_id
    ids = named if isinstance(named, list | tuple) else [named]
    return frozenset(int(i) for i in (*ids, encoder.end_id) if i is not None)
