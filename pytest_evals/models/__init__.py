"""From requests to responses."""
