"""Floats in, floats out; scipy computes distributions, their quantiles and roots.

Written by hand, since a library gives other numbers or takes longer:

- the draws of the bootstrap (``bootstrap``, ``mersenne_twister``): bit-equal to lm-eval's;
- BCa limits (``replicates``): ``scipy.stats.bootstrap`` gives the same limits in two to
  four times the time, since it cannot resample sums, and no p-values;
- F1 and Matthews' correlation (``agreement``): scikit-learn gives the same numbers, but
  is optional, takes a second to import, and refuses labels of mixed types.
"""
