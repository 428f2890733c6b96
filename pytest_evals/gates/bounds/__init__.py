"""Numbers and their intervals against bounds."""
