"""The task files here are data of the tests, not suites to run."""

collect_ignore = ["tasks"]
