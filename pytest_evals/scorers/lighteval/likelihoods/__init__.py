"""Metrics of the log-probabilities of a document's choices."""
