"""Rows of a dataset → documents and requests, as lm-eval 0.4.13 builds them."""
