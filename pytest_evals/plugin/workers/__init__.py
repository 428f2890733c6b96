"""Between the processes of pytest-xdist: who runs what, and how results travel."""
