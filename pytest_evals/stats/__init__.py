"""Numbers only: floats in, floats out."""
