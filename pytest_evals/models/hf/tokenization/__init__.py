"""Tokenization: strings to token ids, truncation and chat templates."""
