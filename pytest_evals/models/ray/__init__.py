"""Models replicated on a Ray cluster."""
