"""The loop over documents and gates, and their reports."""
