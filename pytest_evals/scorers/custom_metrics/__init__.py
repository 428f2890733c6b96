"""Metrics that do not come from lm-eval: the classes for them, and their use in tasks.

- ``metric``, ``response``: the base classes and their input
- ``entry``: metrics in task files
- ``task_metric``, ``aggregation``: values of a document, and of all documents
- ``judged``: judges
"""
