"""Scorers: score a sample and its output, and aggregate the scores."""
