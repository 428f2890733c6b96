"""Requests to servers and applications: what the model kinds openai, python and
latticeflow share."""
