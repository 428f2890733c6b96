"""Masking of secrets in all output. Standard library only."""
