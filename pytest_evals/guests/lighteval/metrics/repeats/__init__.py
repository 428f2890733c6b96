"""Metrics of several answers per prompt."""
