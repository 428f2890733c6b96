"""A YAML file with its lines, read key by key."""
