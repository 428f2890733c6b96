"""Requests for log-probabilities: what they share is read once."""
