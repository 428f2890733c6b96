"""Texts to token ids, and where a text may be cut."""
