"""Similarity metrics of a generated text and its references or source."""
