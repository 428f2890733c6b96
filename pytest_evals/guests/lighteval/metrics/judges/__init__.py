"""Metrics rated by a judge model."""
