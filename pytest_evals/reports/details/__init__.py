"""Details of one gate or one document as text."""
