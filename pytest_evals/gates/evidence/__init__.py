"""What a verdict rests on: values of documents, their clusters, what is lacking."""
