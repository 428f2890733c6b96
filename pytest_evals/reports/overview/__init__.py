"""A run as a whole, in rows and lines: what every summary says of it."""
