"""Kullback-Leibler divergences: exact for known distributions, a lower bound where only
the likeliest outcomes are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_ROUNDING = 1e-6
"""Probability that rounded log-probabilities may lack; it lowers the bound."""


def divergence(old: Sequence[float], new: Sequence[float]) -> float:
    """KL(old || new) in nats of the softmax of two lists of log-likelihoods."""
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
    """A lower bound of KL(old || new) in nats, from the top of both distributions.

    Outcomes are merged into classes, which never increases the divergence (data
    processing inequality): each outcome in both tops is a class of its own, those only
    in the top of ``old`` are one class, and all others are one. The second class has a
    known probability under ``old``. Under ``new``, each of its outcomes is at most as
    likely as the least likely one of the top; of what this allows, the probability with
    the smallest divergence is taken.

    Args:
        old: Outcome → log-probability of the likeliest ones.
        new: The same of the other distribution, at least one.
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
