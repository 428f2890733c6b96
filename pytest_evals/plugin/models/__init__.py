"""The models of a session: fixtures, compatibility with tasks, progress."""
