"""lighteval's metrics (0.13.0) under their names, and what own metrics are made of."""
