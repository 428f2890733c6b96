"""HTML report of a stored run, which opens from disk without a server."""
