"""Texts made alike and cut into words; no documents and no scores here."""
