"""Metrics that execute what a model writes; only where the user has allowed it."""
