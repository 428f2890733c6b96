"""Collected files and tasks, and the index of names."""
