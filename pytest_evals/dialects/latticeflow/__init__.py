"""LatticeFlow dialect: reads entity files (tasks, datasets, models, policies, run
files) as tasks."""
