"""LatticeFlow dialect: reads entity files (tasks, datasets, models, policies, runs) as
tasks.

- YAML, placeholders, keys: ``reader``, ``entities``, ``fields``, ``parameters``
- run files: ``loader``, ``suite``, ``run_file`` (evaluations), ``policy``
- a task: ``task_file`` (its dataset and samples), ``assembly``, ``recipe``
- datasets: ``dataset_file``, ``tables``, ``filters``, ``generator``
- models: ``model_file``, ``models``, ``http_model``
- ``solvers``, ``scoring``, ``metrics``: packages with the table of all types in
  ``reader``
- ``prompts``: ``templates``, and the ``output`` of a solver with its ``trace`` of
  ``items``; Python of users: ``snippets``

Functions that read a section add all errors to its problems and return a value that is
not used then; functions that need a whole file raise ``TaskFileError``. Functions that
work on a document raise ``DocumentError``, which is different from a wrong answer.
"""
