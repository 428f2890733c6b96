"""Gate files of other projects: which they are, and what they become as ours.

They are not collected. ``python -m pytest_evals convert`` writes a suite with gates
whose bounds are those of the project's own rule.
"""
