"""Metrics that another model says."""
