"""Scorers of LatticeFlow's tasks.

``reader`` reads a task's ``scorers`` and has the table of all types; ``scorer`` is what
they share. The types are in ``strings``, ``function_calls``, ``judges``, ``rag`` (with
``claims``), ``python`` and ``lighteval_metric``.
"""
