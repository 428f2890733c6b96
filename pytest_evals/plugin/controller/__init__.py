"""The controller's side of pytest-xdist."""
