"""Options that change what a run does, one module each."""
