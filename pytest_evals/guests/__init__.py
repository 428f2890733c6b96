"""Guests: parts that the rest of the package does not import. They are registered as a
user's plugin registers its own dialects, model kinds and metrics; their names are in
:mod:`pytest_evals.core.registry`, and each is imported when it is first needed.

- :mod:`.latticeflow`: the dialect, and the models that its files name
- :mod:`.lighteval`: the dialect, and lighteval's metrics
- :mod:`.ray`: the model kind ``ray``
- :mod:`.harness`: models for the runs of lm-eval and lighteval
"""
