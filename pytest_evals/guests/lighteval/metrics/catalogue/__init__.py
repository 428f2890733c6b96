"""lighteval's metrics by name."""
