"""Where gates stand, and which gates a task or a group has."""
