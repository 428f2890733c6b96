"""Suites in a script or a notebook, without pytest: the same tasks, gates and store."""
