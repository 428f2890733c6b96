"""Models: from requests to responses."""
