"""Templates of LatticeFlow's task files."""
