"""Execution of code that a model wrote, in isolation.

``inside`` runs in the sandbox and imports the standard library only; the other modules
run in the session and never execute the code.
"""
