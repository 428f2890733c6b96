"""``vllm.distributed.parallel_state``."""


def cleanup_dist_env_and_memory():
    """Nothing to free."""
