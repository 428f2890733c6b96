"""Converts eval files to tasks; one package per dialect."""
