"""LatticeFlow dialect: reads entity files (tasks, datasets, models, policies, runs) as
tasks.

- YAML, keys, placeholders: ``reader``, ``entities``, ``fields``, ``substitution``
- run files: ``loader``, ``suite``, ``evaluation``, ``parameters``, ``policies``
- a task: ``task_file``, ``task_parts``, ``assembly``, ``recipe``, ``system_task``;
  its samples: ``task_dataset``, ``task_rows``
- datasets: ``dataset_file``, ``samples``, ``filters``, ``generator``
- models: ``model_file``, ``adapter_file``, ``models``
- ``solvers``, ``scoring``, ``metrics``: packages with the table of all types in
  ``reader``
- templates, traces and outputs: ``prompts``; Python of users: ``snippets``

Functions that read a section add all errors to its problems and return ``None`` or a
default; functions that need a whole file raise ``TaskFileError``. Functions that work
on a document raise ``DocumentError``, which is different from a wrong answer.
"""
