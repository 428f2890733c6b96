"""Requests to servers and applications: what the model kinds openai and python, and
guests, share."""
