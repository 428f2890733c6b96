"""The command ``judge``: gates on results that exist already, made by any program.

``command`` parses the arguments and returns the exit code, ``gates`` finds the task of
each gate, ``results`` makes task results of a run's rows, ``verdicts`` judges, and
``output`` shows and writes.
"""
