"""Templates of LatticeFlow's task files, and the objects that they access."""
