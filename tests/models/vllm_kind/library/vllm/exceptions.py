"""``vllm.exceptions``."""
