"""One gate or one document as lines of text: what was found, and why."""
