"""Kullback-Leibler divergences: exact for known distributions, a lower bound if only
the most likely outcomes are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_ROUNDING = 1e-6
"""Probability mass that rounded log-probabilities may lack; it lowers the bound."""


def divergence(old: Sequence[float], new: Sequence[float]) -> float:
    """Return KL(old || new) in nats of the softmax of two lists of log-likelihoods."""
    before, now = _log_softmax(old), _log_softmax(new)
    total = math.fsum(
        math.exp(p) * (p - q) for p, q in zip(before, now, strict=True) if p > -math.inf
    )
    return max(0.0, total)


def _log_softmax(logprobs: Sequence[float]) -> list[float]:
    top = max(logprobs)
    norm = top + math.log(math.fsum(math.exp(one - top) for one in logprobs))
    return [one - norm for one in logprobs]


def least_divergence(old: Mapping[str, float], new: Mapping[str, float]) -> float:
    """Return a lower bound of KL(old || new) in nats, from the top of both
    distributions.

    Outcomes are merged into classes, which never increases the divergence (data
    processing inequality): each outcome in both tops is its own class, those only in
    the top of ``old`` form a second class, and all others a third. The second class has
    a known probability under ``old``. Under ``new``, each of its outcomes is at most as
    likely as the least likely outcome of the top; among the probabilities this allows,
    the one with the smallest divergence is used.

    Args:
        old: Log-probability of each of the most likely outcomes.
        new: The same for the other distribution; at least one outcome.
    """
    common = old.keys() & new.keys()
    p = {name: math.exp(old[name]) for name in old}
    q = {name: math.exp(new[name]) for name in new}
    total = math.fsum(p[name] * (old[name] - new[name]) for name in common)
    p_only = math.fsum(p[name] for name in old if name not in common)
    p_rest = max(0.0, 1 - math.fsum(p.values()))
    free = max(0.0, 1 - math.fsum(q[name] for name in common)) + _ROUNDING
    if p_only:
        n_only = len(old) - len(common)
        unlisted = max(0.0, 1 - math.fsum(q.values()))
        most = min(n_only * min(q.values()), unlisted) + _ROUNDING
        q_only = min(free * p_only / (p_only + p_rest), most)
        total += p_only * math.log(p_only / q_only)
        free -= q_only
    if p_rest:
        total += p_rest * math.log(p_rest / max(free, _ROUNDING))
    return max(0.0, total)
