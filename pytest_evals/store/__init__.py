"""Stored data: the results folder and the files in it."""
