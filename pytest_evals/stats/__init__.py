"""Statistics on plain floats; scipy supplies distributions, quantiles and roots.

These parts are implemented here because a library gives different numbers or is slower:

- bootstrap draws (``bootstrap``, ``mersenne_twister``): bit-equal to lm-eval's;
- BCa limits (``bootstrap_limits``): ``scipy.stats.bootstrap`` returns the same limits
  in two to four times the time, because it cannot resample sums, and returns no
  p-values;
- F1 and Matthews correlation (``agreement``): scikit-learn returns the same numbers,
  but is optional, takes a second to import, and rejects labels of mixed types.
"""
