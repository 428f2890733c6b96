"""Answer extraction: letters, numbers and formulas in generated texts."""
