"""``vllm.distributed``."""
