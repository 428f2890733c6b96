"""What Python modules of tasks import from lm-eval, for where that is not installed:
the names that lm-eval's own task tree uses (0.4.13), in words of our own."""
