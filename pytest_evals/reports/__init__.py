"""Reports of results as text and files; nothing is judged or measured here."""
