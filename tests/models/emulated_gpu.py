"""Emulated CUDA devices on a machine without one.

A :class:`GpuTensor` holds a CPU tensor, reports ``cuda:0`` as its device, and cannot be
used together with tensors of other devices, as on CUDA: a CPU tensor may be a scalar,
the source of a copy, or indices of a tensor on the GPU. ``torch.cuda`` reports free
memory and each thread's current device. The attention kernels that the package calls by
name return what those of CUDA do, and check what those need.

Not emulated: numbers, speed and memory of kernels, streams, Triton, a device's random
numbers, and the device that code in C++ sees, which is the CPU. Rests on private parts
of PyTorch 2.13: tests are skipped where a version lacks one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

INDEXED = ("index", "index_put", "index_put_", "_index_put_impl_")
EFFICIENT = "_scaled_dot_product_efficient_attention"
KERNELS = (EFFICIENT, "_scaled_dot_product_flash_attention")
NEEDED = [(torch.ops.aten, name) for name in KERNELS]
NEEDED += [(torch.Tensor, "_make_wrapper_subclass"), (torch.cuda, "_lazy_init")]
NEEDED += [(torch._C, "_InferenceMode")]
RESULTS = {
    "is_available": True,
    "mem_get_info": (80 * 2**30, 140 * 2**30),
    "memory_reserved": 0,
    "memory_allocated": 0,
    "max_memory_allocated": 0,
    "get_device_name": "emulated",
    "get_device_capability": (9, 0),
    "get_device_properties": SimpleNamespace(total_memory=140 * 2**30, major=9),
    "get_rng_state": torch.zeros(1, dtype=torch.uint8),
    "reset_peak_memory_stats": None,
    **dict.fromkeys(("_lazy_init", "current_blas_handle", "empty_cache")),
    **dict.fromkeys(("set_rng_state", "manual_seed_all", "synchronize")),
}
current = threading.local()


def cuda(device: Any) -> torch.device | None:
    """A CUDA device with its index; ``None`` for another one."""
    found = torch.device("cpu" if device is None else device)
    if found.type != "cuda":
        return None
    index = getattr(current, "index", 0) if found.index is None else found.index
    if index >= torch.cuda.device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")
    return torch.device("cuda", index)


class GpuTensor(torch.Tensor):
    """A tensor on an emulated device."""

    device = property(lambda self: self.place)
    is_cuda = property(lambda _: True)

    def __new__(cls, data: torch.Tensor, place: torch.device) -> GpuTensor:
        sizes = {"strides": data.stride(), "storage_offset": data.storage_offset()}
        made = cls._make_wrapper_subclass(cls, data.shape, dtype=data.dtype, **sizes)
        made.data_, made.place = data, place
        return made

    def tolist(self) -> Any:
        return self.data_.tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator with the CPU tensors, after a check of their devices."""
    name = func.__name__.partition(".")[0]
    leaves = tree_leaves((args, kwargs))
    first = next(iter(args), None)
    if name in INDEXED and isinstance(first, GpuTensor):
        leaves = tree_leaves((first, args[2:]))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    places = {t.device for t in tensors if isinstance(t, GpuTensor) or t.dim()}
    if name == "copy_":
        places = {first.device}
    if len(places) > 1:
        shown = [f"{t.device} {tuple(t.shape)}" for t in tensors]
        raise RuntimeError(f"{name}: tensors on several devices: {', '.join(shown)}")
    named = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
    if name == "_to_copy" and isinstance(first, GpuTensor):
        named = []  # of the CPU tensor: moves are made by _moved
    place = cuda(named[0] if named else next(iter(places), None))
    plain, options = tree_map(_unwrapped, (args, kwargs))
    if name == "histc":
        plain = (plain[0].float(), *plain[1:])  # integers on CUDA only
    if name in KERNELS:
        func = partial(_attention, name)
    found = func(*plain, **options)
    if isinstance(first, GpuTensor) and found is first.data_:
        return first  # changed in place
    return tree_map(partial(_placed, place=place), found)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value.data_ if isinstance(value, GpuTensor) else value


def _placed(value: Any, place: torch.device | None) -> Any:
    return (
        GpuTensor(value, place) if place and isinstance(value, torch.Tensor) else value
    )


def _attention(name: str, query: Any, key: Any, value: Any, *more: Any, scale=None):
    """The result of a kernel, and the log-sum-exp of the scores."""
    assert query.shape[1] == key.shape[1] == value.shape[1]
    scores = query.double() @ key.double().mT * (scale or query.shape[-1] ** -0.5)
    if name == EFFICIENT and (bias := more[0]) is not None:
        assert bias.shape == scores.shape
        assert bias.dtype == query.dtype
        assert bias.stride(-1) == 1
        assert bias.stride(-2) % (16 // bias.itemsize) == 0, "not aligned"
        scores = scores + bias.double()
    # Arguments with their default values are left out at the end.
    if any(more[3:4] if name == EFFICIENT else more[1:2]):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    out, total = (scores.softmax(-1) @ value.double()), scores.logsumexp(-1).float()
    other = torch.zeros(())
    if name == EFFICIENT:
        padding = (0, -total.shape[-1] % 32)
        total = torch.nn.functional.pad(total, padding, value=torch.nan)
        return out.to(query.dtype), total, other, other
    assert query.dtype != torch.float32
    return out.to(query.dtype), total, other, other, 1, 1, other, other, other


def _moved(tensor: torch.Tensor, *values: Any) -> torch.Tensor:
    """As ``Tensor.to``, which does nothing for a tensor of its own device."""
    dtype, device = tensor.dtype, tensor.device
    for value in values:
        if isinstance(value, torch.Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, torch.dtype):
            dtype = value
        elif isinstance(value, torch.device | str):
            device = cuda(value) or torch.device(value)
    if (dtype, device) == (tensor.dtype, tensor.device):
        return tensor
    own = _unwrapped(tensor).detach()
    return _placed(own.to(_unwrapped(device), dtype, copy=True), cuda(device))


class Operators(TorchDispatchMode):
    """Operators that create a tensor on a device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


class Functions(TorchFunctionMode):
    """Functions that look at a device before they call an operator."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = {k: v for k, v in (kwargs or {}).items() if k != "pin_memory"}
        if func in (torch.Tensor.to, torch.Tensor.cpu):
            values = (
                ("cpu",) if func is torch.Tensor.cpu else (*args[1:], *kwargs.values())
            )
            return _moved(args[0], *values)
        if func is torch.Tensor.new_tensor:
            own = {"dtype": args[0].dtype, "device": args[0].device}
            func, args, kwargs = torch.tensor, args[1:], {**own, **kwargs}
        if func in (torch.tensor, torch.as_tensor):
            if isinstance(args[0], GpuTensor):
                return _moved(args[0], *kwargs.values())
            if place := cuda(kwargs.get("device")):
                return _placed(func(*args, **{**kwargs, "device": "cpu"}), place)
        if func is torch.nn.functional.scaled_dot_product_attention:
            return run(func, args, kwargs)  # creates masks
        return func(*args, **kwargs)


@contextmanager
def emulated_gpus(n: int = 1) -> Iterator[None]:
    """Emulate ``n`` devices, in this thread and in those that it starts."""
    if lacks := [name for owner, name in NEEDED if not hasattr(owner, name)]:
        pytest.skip(f"torch {torch.__version__} lacks {', '.join(lacks)}")

    def select(device: Any) -> None:
        index = torch.device(device).index
        if index is None:
            raise ValueError(f"expected a device with an index, got {device}")
        current.index = index

    start = threading.Thread.run

    def in_thread(thread: threading.Thread) -> None:
        with Functions(), Operators():
            start(thread)

    with pytest.MonkeyPatch.context() as patch, Functions(), Operators():
        for name, result in {**RESULTS, "device_count": n}.items():
            patch.setattr(torch.cuda, name, lambda *_, result=result: result)
        patch.setattr(torch.cuda, "set_device", select)
        patch.setattr(torch.cuda, "current_device", lambda: cuda("cuda").index)
        patch.setattr(threading.Thread, "run", in_thread)
        # Module.to replaces parameters: a new tensor in the old one is a CPU tensor.
        replace = torch.__future__.get_overwrite_module_params_on_conversion
        patch.setattr(torch.__future__, replace.__name__, lambda: True)
        # Tensors of inference mode cannot have a subclass.
        patch.setattr(torch._C, "_InferenceMode", lambda _: torch.no_grad())
        yield
