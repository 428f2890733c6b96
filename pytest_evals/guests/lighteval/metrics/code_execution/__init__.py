"""Metrics that execute model output, if the user allows it."""
