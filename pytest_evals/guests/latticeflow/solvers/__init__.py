"""Solvers: turn a sample into an output by calling models."""
