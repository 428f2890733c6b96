"""Python functions as models: applications, chains and agents."""
