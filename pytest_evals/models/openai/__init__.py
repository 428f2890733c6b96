"""Models served by an OpenAI-compatible API."""
