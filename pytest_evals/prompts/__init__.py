"""From a row of a dataset to a document and its requests."""
