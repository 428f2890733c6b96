"""lighteval (0.13.0): its task modules, which are Python with a ``TASKS_TABLE``, and
its metrics. No code of lighteval's runs here unless a module asks for a name that is
unknown.

- a module: ``tasks``, ``modules``, ``config``; names that it imports:
  ``shims``, ``metrics_enum``, ``templates``, ``language``
- a document: ``documents``, ``data``, ``prompt``; its scores: ``scoring``
- metrics of a task: ``task_metrics``; all metrics by name: ``metrics``
"""
