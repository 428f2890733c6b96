"""Spans of tokens to score, cut to the context window as prompts are, and the prefix
tree of all of a window of requests."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_evals.core.request import FITTING, Generate
from pytest_evals.models.tokens.encoder import Ids
from pytest_evals.models.tokens.request_encoder import InvalidRequestError, TokenPair


@dataclass(frozen=True, slots=True, eq=False)
class ScoredSpan:
    """A sequence whose last tokens are scored."""

    tokens: Ids  # (C + N,) context, at least one token, then what is scored
    n_scored: int  # N, at least 1
    n_truncated: int = 0  # Tokens of the context that were cut off


def span_of(pair: TokenPair, max_length: int) -> ScoredSpan | InvalidRequestError:
    """A pair as a span: its last ``max_length + 1`` tokens, of which the last is scored
    but not an input (lm-eval 0.4.13, ``HFLM._loglikelihood_tokens``)."""
    n = len(pair.continuation)
    if n > max_length:
        return InvalidRequestError(
            f"the continuation has {n} tokens, and the model's window only {max_length}"
        )
    tokens = np.concatenate([pair.context, pair.continuation])
    cut = max(0, len(tokens) - (max_length + 1))
    return ScoredSpan(tokens[cut:], n, cut)


def windows_of(ids: Ids, prefix_id: int, max_length: int) -> list[ScoredSpan]:
    """Rolling windows of a document; each token is scored once.

    The first window follows the prefix token. Each later one scores ``max_length`` new
    tokens after one token of context; the last, shorter one gets as much context as
    fits (lm-eval 0.4.13, ``utils.get_rolling_token_windows`` with ``context_len=1``).
    """
    tokens = np.concatenate([np.asarray([prefix_id], dtype=ids.dtype), ids])
    spans = []
    for start in range(0, len(ids), max_length):
        n = min(max_length, len(ids) - start)
        end = start + n + 1  # in ``tokens``, one further than in ``ids``
        spans.append(ScoredSpan(tokens[max(0, end - (max_length + 1)) : end], n))
    return spans


class PromptBudget(NamedTuple):
    """Split of the context window between prompt and completion."""

    n_prompt: int  # Tokens of the prompt that are kept: its last ones
    max_tokens: int  # Most new tokens


def fit_prompt(request: Generate, n_prompt: int, max_length: int) -> PromptBudget:
    """Tokens to keep of a prompt of ``n_prompt``, and the maximum of new tokens, in a
    window of ``max_length``.

    The prompt is truncated on the left to leave room for ``max_tokens`` (lm-eval
    0.4.13, ``HFLM.generate_until``). If the limit is a default, the completion gets the
    remaining window instead. Raises ``InvalidRequestError`` if there is no room for a
    prompt or for an answer.
    """
    max_tokens, options = request.max_tokens, dict(request.options)
    if max_tokens < 1:
        raise InvalidRequestError(f"max_tokens is {max_tokens}; it must be 1 or more")
    if options.get(FITTING):
        max_tokens = min(max_tokens, max(1, max_length - n_prompt))
    if max_tokens >= max_length:
        raise InvalidRequestError(
            f"an answer of up to {max_tokens} tokens leaves no room for a "
            f"prompt in the model's window of {max_length}"
        )
    kept = min(n_prompt, max_length - max_tokens)
    # lm-eval cuts the prompt for the one limit and ends the text at the other.
    if limit := options.get("max_length"):
        max_tokens = min(limit, max_length) - kept
    if max_tokens < 1:
        raise InvalidRequestError(
            f"max_length is {limit}, and the prompt has {kept} tokens"
        )
    return PromptBudget(kept, max_tokens)


Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """Prefix tree: distinct sequences, sorted so that common prefixes are adjacent and
    a sequence precedes its extensions. The common length with the previous sequence
    defines all branches."""

    sequences: Sequence[Ids]  # The N sequences, what the model reads of the spans
    spans: Sequence[tuple[int, ...]]  # The positions of each sequence's spans
    lengths: Numbers  # (N,) tokens of each sequence, at least 1
    shared: Numbers  # (N,) tokens at its beginning that the one before has too, or 0
    scored_from: Numbers  # (N,) first place whose logits any of its spans needs

    def shared_with(self, ids: Ids) -> Numbers:
        """(N,) length of the common prefix of each sequence and ``ids``."""
        place = bisect(self.sequences, ids.tobytes(), key=lambda one: one.tobytes())
        near = [*self.sequences[:place][-1:], ids, *self.sequences[place:][:1]]
        shared = shared_lengths(near)[min(place, 1) :]
        gaps = np.concatenate([self.shared[:place], shared, self.shared[place + 1 :]])
        left = np.minimum.accumulate(gaps[1 : place + 1][::-1])[::-1]
        return np.concatenate([left, np.minimum.accumulate(gaps[place + 1 :])])


def trie_of(spans: Sequence[ScoredSpan]) -> Trie:
    """The tree of all spans' inputs, which exclude their last tokens."""
    owners: dict[bytes, list[int]] = {}
    for i, span in enumerate(spans):
        owners.setdefault(span.tokens[:-1].tobytes(), []).append(i)
    # Bytes of numbers of equal width sort as well as the numbers: which of two tokens
    # comes first does not matter.
    keys = sorted(owners)
    members = [tuple(owners[key]) for key in keys]
    sequences = [spans[m[0]].tokens[:-1] for m in members]
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    most = np.array([max(spans[i].n_scored for i in m) for m in members], np.int64)
    return Trie(sequences, members, lengths, shared_lengths(sequences), lengths - most)


def shared_lengths(sequences: Sequence[Ids]) -> Numbers:
    """(N,) length of the common prefix of each sequence and the previous one."""
    found = np.zeros(len(sequences), dtype=np.int64)
    for i, pair in enumerate(pairwise(sequences), start=1):
        found[i] = common_length(*pair)
    return found


def common_length(one: Ids, other: Ids) -> int:
    """Length of the common prefix of two sequences."""
    n = min(len(one), len(other))
    differ = one[:n] != other[:n]
    return int(differ.argmax()) if differ.any() else n
