"""Python that stands in task files: how it is run, and what it may not do."""
