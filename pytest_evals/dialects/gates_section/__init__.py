"""Reads gates of task, group and gates files, and assigns them to tasks and groups."""
