"""Gates of groups: the numbers of tasks as one, and alarms on single tasks."""
