"""``vllm.utils``."""
