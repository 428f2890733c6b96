"""One run, without pytest: suite, inference, gates, baselines, files of the run."""
