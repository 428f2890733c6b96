"""The fast path: documents without pytest's protocol of three phases.

pytest's own protocol calls more than a dozen hooks and makes three reports for a test,
which costs several times as much as scoring a document. This package is the only place
that bypasses pluggy, replaces pytest's loop or reads private attributes of pytest for
speed. ``--evals-fast-path=off`` turns all of it off: documents then run through
pytest's ordinary hooks, with the same results. ``docs/performance.md`` has the gain of
each part.
"""
