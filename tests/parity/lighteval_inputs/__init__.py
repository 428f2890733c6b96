"""What lighteval is asked to record its answers: inputs drawn at random, always the
same ones, for each kind of metric, prompt and template. Standard library only.

Texts are made of odd pieces: numbers with signs, units and commas, LaTeX, marks and
letters of many scripts, blanks of all kinds, and nothing at all.
"""
