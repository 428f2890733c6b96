"""From somebody's file to a task; one package a dialect."""
