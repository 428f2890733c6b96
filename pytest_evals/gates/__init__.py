"""Gates: reading, estimation, decision and explanation."""
