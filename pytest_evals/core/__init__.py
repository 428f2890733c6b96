"""Data types that all packages share, without input or output. Standard library
only."""
