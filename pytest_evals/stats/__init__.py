"""Statistics of gates and runs on plain floats; scipy supplies distributions, quantiles
and roots. What reproduces the numbers of lm-eval is in ``scorers``."""
