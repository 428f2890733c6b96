"""The distribution of a weighted sum of independent exponential variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

_STEPS = 128  # steps of double exponential quadrature on each side of the middle
_NODES_PER_WIDTH = 3.2  # nodes of Gauss-Legendre quadrature, per width of the integrand
_NOTHING = 40.0  # logarithm of a factor that double precision does not show
_NEAR = 1e-4
"""Relative distance from the saddlepoint that is near enough: the integral is the same
on any line between the poles."""


def probability_not_positive(
    coefficients: NDArray[np.float64], counts: NDArray[np.float64]
) -> float:
    """Return P(sum of c_j E_jk <= 0) for independent standard exponential E_jk.

    Inverts the moment generating function along the vertical line through its
    saddlepoint (Daniels 1954); accurate to 1e-9 for small probabilities.

    Args:
        coefficients: (m,) the c_j.
        counts: (m,) multiplicity of each coefficient, more than 0.
    """
    varying = coefficients != 0
    c, counts = coefficients[varying], counts[varying]
    if not len(c) or c.max() <= 0:
        return 1.0
    if c.min() >= 0:
        return 0.0
    c = c / np.abs(c).max()
    s, scale = _saddlepoint(c, counts)
    # -sum of counts * log(1 - z c), in real numbers: complex logarithms are slow
    real = 1 - s * c  # (m,), positive between the poles
    slope = scale * c / real
    y, weights = _nodes(lambda end: float(counts @ np.log1p((slope * end) ** 2)) / 2)
    ratio = slope[:, None] * y  # (m, t)
    size = counts @ np.log(real) + counts @ np.log1p(ratio * ratio) / 2
    log_mgf = 1j * (counts @ np.arctan(ratio)) - size
    z = s + 1j * scale * y
    tail = float(((np.exp(log_mgf) / z).real * weights).sum()) * scale / math.pi
    return min(1.0, max(0.0, -tail if s < 0 else 1 - tail))


def _nodes(
    decay: Callable[[float], float],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of a quadrature from 0 on. ``decay``: logarithm of the
    factor by which the integrand is smaller at a distance, in units of its width.

    Gauss-Legendre if it is nothing after a few widths, as for many documents; else
    double exponential.
    """
    for end in (10.0, 20.0, 40.0):
        if decay(end) > _NOTHING:
            at, weights = _legendre(int(_NODES_PER_WIDTH * end))
            return (at + 1) * end / 2, weights * end / 2
    t = np.linspace(-3.4, 3.4, 2 * _STEPS + 1)
    y = np.exp(math.pi / 2 * np.sinh(t))
    while decay(end) < _NOTHING and end < y[-1]:
        end *= 2
    t, y = t[y < end], y[y < end]
    return y, (t[1] - t[0]) * math.pi / 2 * np.cosh(t) * y


@cache
def _legendre(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from numpy.polynomial.legendre import leggauss

    return leggauss(n)


def _saddlepoint(
    c: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the minimum of the moment generating function, kept away from its pole at
    0, and the width of the integrand there."""
    low, high = float(1 / c.min()), float(1 / c.max())
    left, right, s = low, high, 0.0
    for _ in range(200):
        ratio = c / (1 - s * c)
        slope = float((counts * ratio).sum())
        left, right = (left, s) if slope > 0 else (s, right)
        step = s - slope / float((counts * ratio * ratio).sum())
        step = step if left < step < right else (left + right) / 2
        if abs(step - s) <= _NEAR * max(abs(step), abs(s)):
            break
        s = step
    width = 1 / math.sqrt(float((counts * (c / (1 - s * c)) ** 2).sum()))
    if abs(s) < 0.3 * width:
        s = math.copysign(0.3 * width, s)
        s = s if low < s < high else (low if s < 0 else high) / 2
        width = 1 / math.sqrt(float((counts * (c / (1 - s * c)) ** 2).sum()))
    return s, width if np.isfinite(width) else 1.0
