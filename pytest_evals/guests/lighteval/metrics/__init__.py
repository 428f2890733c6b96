"""lighteval's metrics (0.13.0), and the classes for custom ones."""
