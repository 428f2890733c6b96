"""Rows and lines about a whole run, shared by all summaries."""
