"""A metric beside a stored run: the same documents in pairs, and what has moved."""
