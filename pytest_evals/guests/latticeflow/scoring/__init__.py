"""Scorers of LatticeFlow's tasks."""
