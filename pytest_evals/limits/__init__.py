"""Limits on the time and memory that task files and model answers may use."""
