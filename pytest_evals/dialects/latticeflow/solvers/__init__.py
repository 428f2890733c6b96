"""Solvers: the requests to models for a sample, and their order."""
