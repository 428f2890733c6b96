"""Templates of LatticeFlow's files, and the objects that they and snippets see."""
