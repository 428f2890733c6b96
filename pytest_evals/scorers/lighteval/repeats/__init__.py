"""Metrics of several answers to one prompt."""
