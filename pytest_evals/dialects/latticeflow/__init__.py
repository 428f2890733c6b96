"""LatticeFlow's files: entities → tasks. Nothing outside this folder knows them."""
