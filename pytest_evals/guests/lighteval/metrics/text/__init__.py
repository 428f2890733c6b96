"""Normalization and tokenization of texts."""
