"""Values to a number and where it lies, as far as its noise goes."""
