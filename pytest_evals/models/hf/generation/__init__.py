"""Text generation with continuous batching: from token ids to strings."""
