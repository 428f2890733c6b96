"""A run on the disk: lm-eval's files, and what they say of model and machine."""
