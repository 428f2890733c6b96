"""Models of LatticeFlow's files, which exchange arbitrary JSON.

``http_model`` is a server, ``function_model`` a user's function; ``adapters`` convert
between model inputs or outputs and bodies, ``messages`` between those and requests or
responses. ``spending`` computes the cost of a run before it starts.
"""
