"""Metrics of LatticeFlow's scorers."""
