"""Checks of a session before a model is opened."""
