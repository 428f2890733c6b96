"""The beta distribution without scipy, whose import takes longer than most verdicts.

The tail is its continued fraction (DiDonato and Morris 1992, formula 8.17.22 of the
DLMF); the density is computed from the differences to Stirling's formula (Loader 2000),
so that digits are not lost with millions of documents.
"""

from __future__ import annotations

import math

_PRECISION = 1e-15
_TINY = 1e-300
_MOST_STEPS = 1_000_000
_LARGE = 10
"""Argument from which the series of the error of Stirling's formula is exact."""


def beta_cdf(a: float, b: float, x: float) -> float:
    """Return P(X <= x) of the beta distribution, for positive ``a`` and ``b``."""
    return _tails(a, b, x)[0]


def beta_sf(a: float, b: float, x: float) -> float:
    """Return P(X > x)."""
    return _tails(a, b, x)[1]


def beta_quantile(a: float, b: float, p: float) -> float:
    """Return x with P(X <= x) = p, by Newton's method inside a bracket."""
    low, high = 0.0, 1.0
    x = a / (a + b)
    while high - low > _PRECISION * high:
        below, above = _tails(a, b, x)
        # The smaller tail has all digits.
        excess = below - p if p < 0.5 else (1 - p) - above
        low, high = (low, x) if excess > 0 else (x, high)
        density = _weight(a, b, x) / (x * (1 - x))
        following = x - excess / density if density else low
        if abs(following - x) <= _PRECISION * x:
            return x
        x = following if low < following < high else (low + high) / 2
        if x in (low, high):
            return x
    return x


def _tails(a: float, b: float, x: float) -> tuple[float, float]:
    """Return P(X <= x) and P(X > x)."""
    if not 0 < x < 1:
        return (1.0, 0.0) if x >= 1 else (0.0, 1.0)
    weight = _weight(a, b, x)
    if x * (a + b + 2) < a + 1:  # where the fraction converges quickly
        below = weight / (a * _fraction(a, b, x))
        return below, 1 - below
    above = weight / (b * _fraction(b, a, 1 - x))
    return 1 - above, above


def _fraction(a: float, b: float, x: float) -> float:
    """Return 1 + d1/(1 + d2/(1 + …)) by the modified method of Lentz."""
    value, c, d, step = 1.0, 1.0, 0.0, 0
    change = math.inf
    while abs(change - 1) > _PRECISION and step < _MOST_STEPS:
        step += 1
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / ((1 + term * d) or _TINY)
        c = (1 + term / c) or _TINY
        change = c * d
        value *= change
    return value


def _weight(a: float, b: float, x: float) -> float:
    """Return x^a (1-x)^b / B(a, b)."""
    n = a + b
    power = a * _log_ratio(x, a / n) + b * _log_ratio(1 - x, b / n)
    error = _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
    return math.sqrt(a * b / (2 * math.pi * n)) * math.exp(power + error)


def _log_ratio(x: float, mean: float) -> float:
    change = (x - mean) / mean
    return math.log1p(change) if abs(change) < 0.5 else math.log(x / mean)


def _stirling_error(z: float) -> float:
    """Return log Γ(z) minus Stirling's formula (z - 1/2) log z - z + log(2π)/2."""
    if z < _LARGE:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - math.log(2 * math.pi) / 2
    square = z * z
    last = 1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square
    return (1 / 12 - (1 / 360 - last / square) / square) / z
