"""The run itself: the loop over documents and gates, and their reports."""
