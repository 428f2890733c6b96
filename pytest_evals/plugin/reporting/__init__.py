"""What is shown at the end, beside pytest's own report."""
