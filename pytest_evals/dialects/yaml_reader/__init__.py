"""Reads YAML files with line numbers, key by key."""
