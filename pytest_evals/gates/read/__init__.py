"""Words to gates: the grammar of claims, and the keys of a gate."""
