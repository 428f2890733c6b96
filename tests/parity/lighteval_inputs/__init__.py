"""Deterministic random inputs for recording lighteval: for each kind of metric, prompt
and template. Standard library only. Texts consist of unusual pieces: numbers with
signs, units and commas, LaTeX, punctuation and letters of many scripts, all kinds of
white space, and empty strings."""
