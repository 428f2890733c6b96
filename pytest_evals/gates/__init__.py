"""From results to verdicts."""
