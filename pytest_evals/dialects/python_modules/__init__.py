"""Python beside task files: functions, modules, and what these import."""
