"""Model kind ``serve``: a server that is started for the run, and ended after it."""
