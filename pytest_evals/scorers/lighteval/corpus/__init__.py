"""Metrics of all documents together, and what they keep of each."""
