"""lm-eval's task files (0.4.13): tasks, groups, and what their keys mean."""
