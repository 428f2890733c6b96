"""Metrics of LatticeFlow's scorers.

``reader`` reads a scorer's ``metrics`` and has the table of all types; ``measures`` and
``classification`` compute them; ``value`` has their result type and its final names;
``trials`` aggregates repeated scores of a sample before that.
"""
