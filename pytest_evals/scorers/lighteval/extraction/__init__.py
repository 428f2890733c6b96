"""Metrics of the answer that is found in a text: a letter, a number, a formula."""
