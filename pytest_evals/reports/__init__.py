"""From a run's result to text and files. Reports never compute."""
