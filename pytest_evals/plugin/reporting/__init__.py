"""Output besides pytest's own report."""
