"""Requests for texts: written side by side, from prompts to strings."""
