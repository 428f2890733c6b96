"""Device memory: free bytes and out-of-memory errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

R = TypeVar("R")

OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


def or_none(run: Callable[[], R]) -> R | None:
    """The result of ``run``, or ``None`` if memory ran out. The error is dropped here,
    with all tensors that its traceback references."""
    try:
        return run()
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
    release()
    return None


def fits(run: Callable[[], object]) -> bool:
    """Whether ``run`` completes without running out of memory."""

    def ran() -> bool:
        run()
        return True

    return or_none(ran) is not None


def release() -> None:
    """Free unused memory of the device's pool."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_bytes(device: torch.device) -> int | None:
    """Available bytes, including PyTorch's pool; ``None`` if unknown."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        pool = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + pool)
    if device.type == "cpu":
        return _free_on_host()
    return None


def _free_on_host() -> int | None:
    """Linux' MemAvailable: free memory and reclaimable caches."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(sign in text for sign in OUT_OF_MEMORY)
