"""A run without pytest: suite, inference, gates, baselines, files."""
