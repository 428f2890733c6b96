"""Similarity of a generated text to its references or source."""
