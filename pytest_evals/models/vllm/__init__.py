"""Models that vLLM runs in this process."""
