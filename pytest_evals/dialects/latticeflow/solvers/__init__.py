"""Solvers: what a model is asked about a sample, and in which order."""
