"""A stored run as a page that a browser opens from the disk."""
