"""Statistics of gates and runs on plain floats; scipy supplies distributions, quantiles
and roots.

BCa limits (``bootstrap_limits``) are implemented here, because
``scipy.stats.bootstrap`` returns the same limits in two to four times the time, cannot
resample sums, and returns no p-values. What reproduces the numbers of lm-eval is in
``scorers``.
"""
