"""Benchmarks of language models as pytest suites."""
