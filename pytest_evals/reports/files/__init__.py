"""Files of a run in lm-eval's schema, with model and machine."""
