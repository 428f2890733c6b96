"""Models that LatticeFlow's files describe."""
