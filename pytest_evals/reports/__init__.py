"""Results to text and to files: facts only, nothing is judged or measured here."""
