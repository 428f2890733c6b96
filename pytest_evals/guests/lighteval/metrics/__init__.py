"""lighteval's metrics (0.13.0); their classes are in
:mod:`pytest_evals.scorers.custom_metrics`, and :mod:`.catalogue` has them by name."""
