"""A model on many machines: replicas on a Ray cluster."""
