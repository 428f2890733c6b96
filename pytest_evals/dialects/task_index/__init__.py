"""The names of a tree of task files."""
