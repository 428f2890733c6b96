"""Limits on the time and memory that task files and answers of models may take."""
