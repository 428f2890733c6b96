"""The device: its name, free memory, out-of-memory errors, and batches that fit."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

import torch

from pytest_evals.models.tokens.request_encoder import InvalidRequestError

R = TypeVar("R")

OUT_OF_MEMORY = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "_alloc_failed",  # CUBLAS_STATUS_…, CUDNN_STATUS_…, HIPBLAS_STATUS_…
    "_allocation_failed",  # CUDNN_STATUS_INTERNAL_ERROR_DEVICE_…
    "out_of_device_memory",  # XPU
    "out_of_host_memory",
    "ur_result_error_out_of_resources",
    "calling `cublascreate(",  # reports CUBLAS_STATUS_NOT_INITIALIZED
)
"""Parts of the messages of libraries that cannot allocate memory, in lower case."""
SWITCH_INTERVAL_S = 2e-4
"""Interval at which Python switches threads during inference. With the default of 5 ms
the thread that feeds the device waits longer for Python than for the device."""


def or_none(run: Callable[[], R]) -> R | None:
    """The result of ``run``, or ``None`` if memory ran out. The error is dropped here,
    with all tensors that its traceback references."""
    try:
        return run()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    release()
    return None


def retried(run: Callable[[], R]) -> R:
    """The result of ``run``, repeated once after unused memory was freed."""
    found = or_none(run)
    return run() if found is None else found


def fits(run: Callable[[], object]) -> bool:
    """Whether ``run`` completes without running out of memory."""

    def ran() -> bool:
        run()
        return True

    return or_none(ran) is not None


def release() -> None:
    """Free unused memory of the device's pool."""
    for module in (torch.cuda, torch.xpu):
        if module.is_available():
            module.empty_cache()


def devices_of(model: Any) -> list[torch.device]:
    """The devices that hold a model's weights."""
    return list(dict.fromkeys(weight.device for weight in model.parameters()))


def free_bytes(devices: Iterable[torch.device]) -> int | None:
    """Available bytes on the fullest device, pool included; ``None`` if unknown."""
    found = [_free(device) for device in devices]
    return min((n for n in found if n is not None), default=None)


def _free(device: torch.device) -> int | None:
    if device.type in ("cuda", "xpu"):
        module = getattr(torch, device.type)
        free, _ = module.mem_get_info(device)
        pool = module.memory_reserved(device) - module.memory_allocated(device)
        return int(free + pool)
    if device.type == "cpu":
        return _free_on_host()
    return None


def use_device(device: torch.device) -> None:
    """Make a GPU the thread's current device: kernels of Triton and bitsandbytes run on
    that one, wherever their tensors are. Without an index it is the current one."""
    if device.type in ("cuda", "xpu") and device.index is not None:
        getattr(torch, device.type).set_device(device)


def create_blas_handle(device: torch.device) -> None:
    """Create the cuBLAS handle of the inference thread while memory is free. PyTorch
    keeps the handles of finished threads for later ones."""
    if device.type == "cuda":

        def create() -> None:
            use_device(device)
            current: Any = torch.cuda.current_blas_handle  # has no annotations
            current()

        thread = Thread(target=create)
        thread.start()
        thread.join()


class _Switching:
    """Nested requests for short thread switches."""

    def __init__(self) -> None:
        self._lock = Lock()  # each model has its own thread
        self._n = 0
        self._usual = 0.0

    def add(self, n: int) -> None:
        with self._lock:
            if self._n == 0:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, SWITCH_INTERVAL_S))
            self._n += n
            if self._n == 0:
                sys.setswitchinterval(self._usual)


_switching = _Switching()


@contextmanager
def inference_thread(device: torch.device) -> Iterator[None]:
    """Settings of a thread while it runs a model on a device."""
    use_device(device)
    _switching.add(1)
    try:
        yield
    finally:
        _switching.add(-1)


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


def is_out_of_memory(error: Exception) -> bool:
    """Whether an exception reports that memory could not be allocated."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return any(sign in text for sign in OUT_OF_MEMORY)


def device_name(device: torch.device) -> str:
    """Name of the GPU, or architecture of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.machine()


T = TypeVar("T")

CPU_TOKENS = 8192
MOST_TOKENS = 131_072
SMALLEST_PART = 64  # Minimum prefill chunk of a long sequence in tokens
FITTING_BATCHES = 16  # Consecutive successful batches after which the limit is doubled


class BatchBudget:
    """Maximum of tokens, padding included, and rows of a batch. If memory runs out, the
    limit is halved; after some successful batches it grows again."""

    def __init__(self, tokens: int, rows: int = 0) -> None:
        """``rows`` is the maximum of rows, 0 for no limit."""
        self.tokens = tokens
        self._most = tokens
        self._rows = rows
        self._fitting = 0

    def take(self, costs: Sequence[int], start: int) -> int:
        """Number of items from ``start`` in the next batch, at least one.

        ``costs`` are tokens; each row is padded to the longest one.
        """
        widest = 0
        for end in range(start, len(costs)):
            widest = max(widest, costs[end])
            n = end - start + 1
            if n > 1 and (n * widest > self.tokens or (self._rows and n > self._rows)):
                return n - 1
        return len(costs) - start

    def shrink(self, tokens: int) -> None:
        """Halve the limit after a batch of ``tokens`` did not fit."""
        self.tokens = max(1, tokens // 2)
        self._fitting = 0

    def grow(self) -> None:
        """Record a successful batch."""
        self._fitting += 1
        if self._fitting >= FITTING_BATCHES and self.tokens < self._most:
            self.tokens = min(self._most, self.tokens * 2)
            self._fitting = 0


@dataclass(frozen=True, slots=True)
class Batch(Generic[T, R]):
    """Items that ran together."""

    items: Sequence[T]
    result: R | InvalidRequestError  # Their result, or the error of a single item
    elapsed_s: float  # Seconds it took


def in_batches(
    items: Sequence[T],
    costs: Sequence[int],
    run: Callable[[Sequence[T]], R],
    budget: BatchBudget,
) -> Iterator[Batch[T, R]]:
    """Run all items in order; yields each batch as it finishes.

    Sort items by length, the longest first: batches are evenly filled, and a batch that
    does not fit is detected early.
    """
    start = 0
    while start < len(items):
        n = budget.take(costs, start)
        batch = items[start : start + n]
        began = time.perf_counter()
        result: R | InvalidRequestError | None = or_none(partial(run, batch))
        if result is None:
            widest = max(costs[start : start + n])
            budget.shrink(n * widest)
            if n > 1:
                continue
            result = InvalidRequestError(
                f"{widest} tokens do not fit into the device's memory"
            )
        else:
            budget.grow()
        yield Batch(batch, result, time.perf_counter() - began)
        start += n


def default_tokens(model: Any, bytes_per_token: int) -> int:
    """Default token limit: half of the free memory of the fullest device.
    ``bytes_per_token``: memory per token during a forward pass."""
    free = None if model.device.type == "cpu" else free_bytes(devices_of(model))
    if free is None:
        return CPU_TOKENS
    return min(MOST_TOKENS, max(1, power_of_two(free // 2 // bytes_per_token)))


def power_of_two(n: int) -> int:
    """The largest power of two up to ``n``, 0 for 0. Budgets are rounded to it: results
    in half precision depend on the batches, which should not change with every megabyte
    that another process uses."""
    return 1 << n.bit_length() >> 1
