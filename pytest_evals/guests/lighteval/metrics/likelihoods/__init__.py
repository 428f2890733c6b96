"""Metrics computed from the log-probabilities of choices."""
