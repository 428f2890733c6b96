"""Runs the Python code of task files: ``snippet`` compiles and calls it, ``guard``
isolates it, ``shims`` provides LatticeFlow's names to its imports."""
