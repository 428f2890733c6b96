"""Index of the names of tasks, groups and tags in trees of task files."""
