"""Results to verdicts: what a gate may say, and how it is judged."""
