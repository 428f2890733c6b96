"""Secrets, kept out of all that is shown or written. Standard library only."""
