"""Selection of the scoring strategy: the fastest one with the reference's results.

A wrong mask may not raise an error, so a self-test at load time runs each strategy on a
few sequences: with a shared prefix, nested sequences and unrelated ones, and beyond the
model's attention window if that is fast enough.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from pytest_evals.models.engine.device_memory import BatchBudget
from pytest_evals.models.engine.scorer import (
    ScoredBatch,
    ScoringStrategy,
    StrategyChoice,
)
from pytest_evals.models.hf.forward import (
    AttentionView,
    Forward,
    TokenCounts,
    estimate_memory,
)
from pytest_evals.models.hf.length_dependence import length_dependence_of
from pytest_evals.models.hf.scoring.cascade_attention import CascadeAttention
from pytest_evals.models.hf.scoring.packing import (
    Kinds,
    RowBatch,
    RowShape,
    kinds_of,
    masks,
)
from pytest_evals.models.hf.scoring.padded_strategy import PaddedStrategy
from pytest_evals.models.hf.scoring.prefix_strategy import PrefixStrategy, ViewBuilder
from pytest_evals.models.hf.scoring.replaced_attention import (
    placeholder_mask,
    replaced_attention,
    uses_interface,
)
from pytest_evals.models.tokens.spans import ScoredSpan

SHAPES = {"cuda": RowShape(width=1024, gain=8192, multiple=8)}
"""GPUs need many tokens a forward pass, and their kernels need aligned masks."""
OTHER_SHAPE = RowShape(width=512, gain=128)
"""On a CPU the quadratic part of attention dominates."""
CPU_TOKENS = 1024  # Larger batches are not faster on a CPU and need more padding
CASCADE_DEPTHS = {"sdpa": 512, "eager": 1536}
"""Tokens of a prefix from which cascade attention is faster on a CPU, by the model's
own attention."""
TRIAL_WIDTH = 16
TRIAL_PREFIX = 24
TRIAL_OPERATIONS = {"cuda": 5e13, "cpu": 2e10}
"""Maximum of floating point operations of a self-test with a longer prefix."""
TRIAL_SEQUENCES = 8
NOTES = {
    "prefix": (
        "log-likelihoods share prefixes but are not packed, which takes longer: with "
        "custom masks this model's attention does not give its usual numbers"
    ),
    "plain": (
        "log-likelihoods are computed one row a sequence, which takes longer: with "
        "kept prefixes this model does not give its usual numbers"
    ),
}


def choose_strategy(plain: PaddedStrategy, max_length: int) -> StrategyChoice:
    """The fastest strategy that reproduces the results of ``plain``; ``max_length`` is
    the model's context window in tokens."""
    device = plain.forward.device.type
    shape = SHAPES.get(device, OTHER_SHAPE)
    batch_tokens = CPU_TOKENS if device == "cpu" else 0
    judge = PaddedStrategy(plain.forward, TokenCounts())  # Trials are not counted
    scaling = length_dependence_of(plain.forward.model.config)
    length = scaling.length
    longest = min(max_length, length or max_length)
    if scaling.by_column:
        longest = max(1, longest - TRIAL_WIDTH)
    spans = _trial_spans(plain.forward, longest)
    theirs = _numbers(judge, spans)

    def does(way: _Candidate) -> bool:
        trial = way.tried.path(judge, replace(shape, width=TRIAL_WIDTH, gain=1))
        agrees = _agrees(trial, judge, spans, theirs)
        # With short sequences only, the trial may not have cached a prefix.
        return agrees and (way.least is None or trial.prefix_length > 0)

    good = filter(does, _candidates(plain.forward))
    way = next(good, None)
    if way is None:
        slow = LongContextStrategy(plain, plain, length) if length else plain
        return StrategyChoice(slow, NOTES["plain"], batch_tokens)
    path: ScoringStrategy = way.path(plain, shape)
    if scaling.by_column and way.packs:
        # A packed row has a column for each token of all its sequences.
        slower = next((other for other in good if not other.packs), None)
        other = plain if slower is None else slower.path(plain, shape)
        most = max(0, length - shape.width)
        path = LongContextStrategy(path, other, most, mixes=True)
    elif length and not scaling.by_column:
        path = LongContextStrategy(path, plain, length)
    return StrategyChoice(path, NOTES.get(way.name, ""), batch_tokens)


@dataclass(eq=False)
class LongContextStrategy:
    """A fast strategy up to a length, and a slower one beyond."""

    path: ScoringStrategy  # For sequences of up to ``length`` tokens
    other: ScoringStrategy
    length: int
    mixes: bool = False  # Whether ``other`` takes different lengths in one pass

    def __post_init__(self) -> None:
        self.name = self.path.name

    def score(
        self, spans: Sequence[ScoredSpan], budget: BatchBudget
    ) -> Iterator[ScoredBatch]:
        """Score all spans; yields batches as they finish."""
        by_length: dict[int, list[int]] = {}
        for i, span in enumerate(spans):
            length = max(len(span.tokens) - 1, self.length)
            if self.mixes:
                length = min(length, self.length + 1)
            by_length.setdefault(length, []).append(i)
        # Upwards, for a scale that has grown stays until a short sequence comes.
        for length, numbers in sorted(by_length.items()):
            path = self.path if length == self.length else self.other
            for done in path.score([spans[i] for i in numbers], budget):
                scored = {numbers[i]: one for i, one in done.scored.items()}
                yield ScoredBatch(scored, done.elapsed_s)

    def forget(self) -> None:
        """Free the memory of cached prefixes."""
        self.path.forget()
        self.other.forget()


class _Candidate(NamedTuple):
    name: str
    see: ViewBuilder
    n_kinds: int
    packs: bool  # Whether rows hold several sequences
    least: int | None = None
    """Tokens of a prefix from which masks and keys of a row do not contain it; ``None``
    for never."""
    trial: ViewBuilder | None = None  # Builds views in the self-test, where that is 0

    @property
    def tried(self) -> _Candidate:
        if self.trial is None:
            return self
        return self._replace(see=self.trial, least=0)

    def path(self, plain: PaddedStrategy, shape: RowShape) -> PrefixStrategy:
        shape_of_path = shape if self.packs else replace(shape, width=0)
        joins = self.least is None
        estimate = estimate_memory(plain.forward, self.n_kinds, joins=joins)
        return PrefixStrategy(
            self.name, self.see, shape_of_path, estimate, plain, self.least
        )


def _candidates(forward: Forward) -> Iterator[_Candidate]:
    """Candidates, the fastest first."""
    kinds = kinds_of(forward.model.config)
    attention = getattr(forward.model.config, "_attn_implementation", None) or ""
    # Flash kernels ignore or reject masks, and some abort the process's device context.
    takes_masks = not re.search(r"flash_attention|flash-attn", attention)
    if kinds is not None and forward.takes_positions and takes_masks:
        packed = partial(_packed, kinds, forward.model.dtype)
        least = 0
        if forward.device.type == "cpu":
            least = CASCADE_DEPTHS.get(attention, CASCADE_DEPTHS["eager"])
        by_name = uses_interface(forward.model)
        for lined_up in (False, True)[: 1 + by_name]:
            build = partial(_cascade, forward.model, kinds, packed, lined_up)
            yield _Candidate(
                "cascade", build(least), len(kinds), True, least=least, trial=build(0)
            )
        yield _Candidate("packed", packed, len(kinds), True)
    yield _Candidate("prefix", _prefixed, 0, False)


def _packed(
    kinds: Kinds, dtype: torch.dtype, sheet: RowBatch, pasts: Sequence[Any]
) -> AttentionView:
    """Each token attends to its ancestors; with a custom mask unless that is plain
    causal attention."""
    (past,) = pasts
    if past is None and not sheet.branched:
        return AttentionView()
    mask = masks(kinds, sheet.ends, sheet.positions, sheet.depth, dtype)
    return AttentionView(mask=mask, positions=sheet.positions, past=past)


def _cascade(
    model: Any, kinds: Kinds, packed: ViewBuilder, lined_up: bool, least: int
) -> ViewBuilder:
    """As packed rows; after prefixes of at least ``least`` tokens, tokens attend to
    theirs and to their row in two calls. ``lined_up`` is for layers that change cached
    keys and values before attention."""
    by_name = uses_interface(model)
    # Sparse attention reads the mask before it calls the attention function.
    requires_mask = not by_name or "indexed_attention" in kinds

    def see(sheet: RowBatch, pasts: Sequence[Any]) -> AttentionView:
        past = pasts[0]
        if past is None or sheet.depth < least:
            return packed(sheet, pasts)
        past.is_apart = True
        prefixes = [one.prefix for one in pasts]
        past.lined_up = prefixes if lined_up else ()
        function = CascadeAttention(model.config, kinds, sheet, prefixes, lined_up)
        return AttentionView(
            mask=placeholder_mask(kinds, model.dtype, sheet.ids)
            if requires_mask
            else None,
            positions=sheet.positions,
            past=past,
            attention=partial(
                replaced_attention, function=function, past=None if by_name else past
            ),
        )

    return see


def _prefixed(sheet: RowBatch, pasts: Sequence[Any]) -> AttentionView:
    """Each token attends to those before it in its row, by the model's mask."""
    (past,) = pasts
    places = torch.arange(sheet.ids.shape[1], device=sheet.ids.device)
    real = (places < sheet.lengths[:, None]).long()
    mask = torch.nn.functional.pad(real, (sheet.depth, 0), value=1)
    positions = sheet.depth + places.expand_as(sheet.ids)
    return AttentionView(mask=mask, positions=positions, past=past)


def _agrees(
    path: PrefixStrategy,
    plain: PaddedStrategy,
    spans: Sequence[ScoredSpan],
    theirs: np.ndarray,
) -> bool:
    """Whether a strategy is as near to the reference as its own batches are."""
    with warnings.catch_warnings():
        # Warnings about strategies that are not selected are irrelevant.
        warnings.simplefilter("ignore")
        try:
            first = _numbers(path, spans)
            repeated = _numbers(path, spans)
        except (
            AssertionError,
            AttributeError,
            IndexError,
            KeyError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ):
            return False
    if path.n_alone:
        return False
    alone = np.concatenate([_numbers(plain, [span]) for span in spans[:2]])
    noise = _rms(alone - theirs[:2])
    apart = _rms(np.stack([first, repeated]) - theirs)
    # Half of the rounding of the largest number: a wrong mask moves all of them, by
    # some tenths in random models.
    rounding = max(1e-5, torch.finfo(plain.forward.model.dtype).eps / 2)
    size = max(10.0, float(np.abs(theirs).max()))
    return apart <= max(3 * noise, rounding * size)


def _rms(numbers: np.ndarray) -> float:
    """Root mean square; NaN if any number is."""
    return float(np.sqrt(np.mean(np.square(numbers))))


def _numbers(path: ScoringStrategy, spans: Sequence[ScoredSpan]) -> np.ndarray:
    """(N,) log-probabilities."""
    found = np.full(len(spans), np.nan)
    for done in path.score(spans, BatchBudget(2**20)):
        for i, one in done.scored.items():
            found[i] = one.logprob if hasattr(one, "logprob") else np.nan
    return found


def _trial_spans(forward: Forward, max_length: int) -> list[ScoredSpan]:
    """Fixed test sequences: most share a prefix, some extend one another, and two are
    unrelated. They make two prefixes, whose rows are long enough to share a pass."""
    draw = np.random.default_rng(7)
    # Inputs may have more tokens than outputs (transformers, ``MllamaForCausalLM``).
    tables = [forward.model.get_input_embeddings(), forward.head]
    size = min(t.weight.shape[0] for t in tables if hasattr(t, "weight"))

    def some(n: int) -> np.ndarray:
        return draw.integers(0, size, n).astype(np.int32)

    prefix = some(_trial_length(forward, max_length))
    branch, twig = some(3), some(2)
    texts = [
        ([prefix, branch, twig], 2),
        ([prefix, branch, some(4)], 4),
        ([prefix, branch, twig, some(3)], 3),
        ([prefix, branch, some(9)], 3),
        ([prefix, some(6)], 1),
        ([prefix, some(12)], 2),
        ([some(7)], 3),
        ([some(5)], 4),
    ]
    spans = []
    for parts, n in texts:
        tokens = np.concatenate(parts)[: max_length + 1]
        spans.append(ScoredSpan(tokens, min(n, len(tokens) - 1)))
    return spans


def _trial_length(forward: Forward, max_length: int) -> int:
    """Prefix length of the self-test: beyond any attention window if that is fast
    enough and within the context window."""
    reach = max((kinds_of(forward.model.config) or {}).values(), default=0)
    length = reach + TRIAL_PREFIX
    a_token = 2 * forward.model.num_parameters() * TRIAL_SEQUENCES
    room = TRIAL_OPERATIONS.get(forward.device.type, 2e10) / a_token
    if reach < max_length and length <= room:
        return min(length, max(1, max_length - TRIAL_WIDTH))
    return min(TRIAL_PREFIX, max(1, max_length - TRIAL_WIDTH))
