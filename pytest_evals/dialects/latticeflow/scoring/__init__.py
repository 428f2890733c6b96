"""Scorers: what is said of a sample and its output, and what that adds up to."""
