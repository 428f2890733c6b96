"""Numbers and changes as people read them."""
