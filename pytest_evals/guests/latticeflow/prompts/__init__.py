"""What templates and snippets see.

``templates`` are ``{{ }}`` in LatticeFlow's files, with its ``filters``. They access
samples and ``output`` (of a solver, with scores), which consists of a ``trace`` of
``items``.
"""
