"""Parse gates: the grammar of conditions, and the keys of a gate."""
