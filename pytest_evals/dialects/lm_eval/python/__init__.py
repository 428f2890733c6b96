"""lm-eval's tasks that are Python classes."""
