"""Numbers and verdicts of LatticeFlow's scorers and metrics."""
