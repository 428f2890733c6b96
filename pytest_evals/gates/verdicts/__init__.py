"""A gate and results to a verdict."""
