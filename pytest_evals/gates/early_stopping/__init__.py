"""Gates that are decided before all documents are read."""
