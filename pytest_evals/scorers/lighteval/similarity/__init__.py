"""Metrics of a generated text beside its references or its source."""
