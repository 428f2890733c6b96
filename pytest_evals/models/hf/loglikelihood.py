"""Log-probabilities of continuations.

Lines (a context with its continuation, or a window of a text) that are equal up to
their last token share one row of a batch. Rows are right-padded; each line's tokens are
scored on the device and come back in one transfer a batch. Log-probabilities are taken
in float32 whatever the model's type: lm-eval 0.4.13 takes them in the model's own type,
which rounds them to three digits in bfloat16. For float32 models the two are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from pytest_evals.models.hf.forward import Forward
from pytest_evals.models.hf.tokens import Ids, Pair, Unusable

__all__ = ["Line", "Row", "Scored", "line_of", "rows_of", "score", "windows_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Tokens to score.

    Args:
        tokens: (C + N,) context, at least one token, then what is scored.
        n_scored: N, at least 1.
        n_truncated: Tokens of the context that were cut off.
    """

    tokens: Ids
    n_scored: int
    n_truncated: int = 0


class Row(NamedTuple):
    """Lines that share a row of a batch: their tokens without the last are the same.

    Args:
        inputs: (T,) what the model reads.
        lines: Positions of the lines.
    """

    inputs: Ids
    lines: tuple[int, ...]


class Scored(NamedTuple):
    """What came of one line.

    Args:
        logprob: Sum over the scored tokens, in nats.
        greedy: Whether each scored token is the most likely one.
        sound: Whether all logits were numbers.
    """

    logprob: float
    greedy: bool
    sound: bool


def line_of(pair: Pair, max_length: int) -> Line | Unusable:
    """A pair as a line: its last ``max_length + 1`` tokens, of which the last is scored
    but not read (lm-eval 0.4.13, ``HFLM._loglikelihood_tokens``)."""
    n = len(pair.continuation)
    if n > max_length:
        return Unusable(
            f"the continuation has {n} tokens, and the model's window only {max_length}"
        )
    tokens = np.concatenate([pair.context, pair.continuation])
    cut = max(0, len(tokens) - (max_length + 1))
    return Line(tokens[cut:], n, cut)


def windows_of(ids: Ids, prefix_id: int, max_length: int) -> list[Line]:
    """A text's tokens as lines, each token scored once.

    The first window comes after the prefix token. Each later one scores ``max_length``
    new tokens after one token of context; the last, shorter one gets as much context as
    fits (lm-eval 0.4.13, ``utils.get_rolling_token_windows`` with ``context_len=1``).
    """
    tokens = np.concatenate([np.asarray([prefix_id], dtype=ids.dtype), ids])
    lines = []
    for start in range(0, len(ids), max_length):
        n = min(max_length, len(ids) - start)
        end = start + n + 1  # in ``tokens``, one further than in ``ids``
        lines.append(Line(tokens[max(0, end - (max_length + 1)) : end], n))
    return lines


def rows_of(lines: Sequence[Line]) -> list[Row]:
    """Lines as rows, the longest first."""
    shared: dict[bytes, list[int]] = {}
    for i, line in enumerate(lines):
        shared.setdefault(line.tokens[:-1].tobytes(), []).append(i)
    rows = [Row(lines[m[0]].tokens[:-1], tuple(m)) for m in shared.values()]
    # Equal beginnings come next to each other, so that results do not depend on the
    # order of the requests.
    return sorted(rows, key=lambda row: (-len(row.inputs), row.inputs.tobytes()))


def score(
    rows: Sequence[Row], lines: Sequence[Line], forward: Forward
) -> dict[int, Scored]:
    """Score a batch of rows.

    Returns:
        Position of a line → what came of it, for all lines of these rows.
    """
    plan = _plan(rows, lines)
    with torch.inference_mode():
        sums = _sums(plan, forward)
    return {
        i: Scored(logprob, bool(greedy), bool(sound))
        for i, (logprob, greedy, sound) in zip(plan.lines, sums.tolist(), strict=True)
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What to read, where to look, and which token of which line to find there.

    Args:
        ids: (B, T) int64, right-padded with 0.
        places: (P,) int64, ascending flat places whose logits are needed.
        lines: The M lines' positions.
        at: (S,) for each scored token its index into ``places``, ascending.
        target: (S,) its id.
        line: (S,) its line, as an index into ``lines``.
        column: (S,) its number within the line.
    """

    ids: torch.Tensor
    places: torch.Tensor
    lines: Sequence[int]
    at: torch.Tensor
    target: torch.Tensor
    line: torch.Tensor
    column: torch.Tensor


def _plan(rows: Sequence[Row], lines: Sequence[Line]) -> _Plan:
    width = max(len(row.inputs) for row in rows)
    ids = np.zeros((len(rows), width), dtype=np.int64)
    places: list[np.ndarray] = []
    tokens: list[tuple[np.ndarray, ...]] = []
    order: list[int] = []
    n_places = 0
    for r, row in enumerate(rows):
        length = len(row.inputs)
        ids[r, :length] = row.inputs
        most = max(lines[i].n_scored for i in row.lines)
        places.append(r * width + np.arange(length - most, length))
        n_places += most
        for i in row.lines:
            n = lines[i].n_scored
            numbers = np.arange(n)
            at = n_places - n + numbers
            own = np.full(n, len(order))
            tokens.append((at, lines[i].tokens[-n:].astype(np.int64), own, numbers))
            order.append(i)
    columns = [np.concatenate(column) for column in zip(*tokens, strict=True)]
    ascending = np.argsort(columns[0], kind="stable")
    found = [torch.from_numpy(column[ascending]) for column in columns]
    where = torch.from_numpy(np.concatenate(places))
    return _Plan(torch.from_numpy(ids), where, order, *found)


def _sums(plan: _Plan, forward: Forward) -> torch.Tensor:
    """(M, 3) float32 on the CPU: log-probability, greedy flag, soundness of each
    line."""
    values: list[torch.Tensor] = []
    hits: list[torch.Tensor] = []
    for start, logits in forward(plan.ids, plan.places):
        ends = torch.tensor([start, start + len(logits)])
        first, last = torch.searchsorted(plan.at, ends).tolist()
        at = (plan.at[first:last] - start).to(logits.device)
        target = plan.target[first:last].to(logits.device)
        total = logits.logsumexp(dim=-1)  # (p,)
        # Infinite logits give a total that is no number for any token of the place.
        total = torch.where(total.isfinite(), total, torch.nan)
        values.append(logits[at, target] - total[at])
        hits.append(logits.argmax(dim=-1)[at] == target)
    logprobs = torch.cat(values)  # (S,)
    shape = (len(plan.lines), int(plan.column.max()) + 1)
    spot = (plan.line.to(logprobs.device), plan.column.to(logprobs.device))
    # A matrix and a sum, not an index-add, whose order of addition varies on CUDA.
    matrix = logprobs.new_zeros(shape).index_put(spot, logprobs)
    greedy = torch.ones(shape, dtype=torch.bool, device=logprobs.device)
    greedy = greedy.index_put(spot, torch.cat(hits)).all(dim=1)
    sums = matrix.sum(dim=1)
    return torch.stack([sums, greedy.float(), (~sums.isnan()).float()], dim=1).cpu()
