"""Exchange between controller and workers of pytest-xdist: sharding, serialization."""
