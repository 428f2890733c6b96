"""What was collected: whose files, where names are found, tasks and groups."""
