"""Estimates: the number of a gate with its confidence limits."""
