"""From somebody's file to a task; one module a dialect."""
