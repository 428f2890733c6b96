"""Runs the Python code of task files."""
