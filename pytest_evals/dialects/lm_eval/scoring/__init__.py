"""Responses → scores, as lm-eval 0.4.13 computes them."""
