"""Requests with images to models of transformers."""
