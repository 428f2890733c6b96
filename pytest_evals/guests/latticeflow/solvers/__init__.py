"""Solvers: turn a sample into an output by calling models.

``reader`` reads a task's ``solver`` and has the table of all types; ``single_turn``,
``multi_turn`` and ``python`` implement them. ``model_client`` converts model inputs to
requests; ``coroutines`` runs code that awaits a model.
"""
